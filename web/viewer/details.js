import { html, useEffect, useState } from '../lib/html.js'
import { detailsOf, nameOf, reasonOf } from '../lib/media.js'
import { newNames } from '../lib/names.js'
import { clock, momentOf, size } from '../lib/words.js'

/** The metadata of what is shown, once it is known. Why a conversion failed is known with it. */
export function useMetadata(m) {
  const [found, setFound] = useState()
  useEffect(() => {
    let isGone = false
    detailsOf(m).then(
      (meta) => isGone || setFound({ id: m.media_id, meta }),
      () => {},
    )
    return () => {
      isGone = true
    }
  }, [m.media_id, m.upload_status, Boolean(m.variants.hls_master_url)])
  return found?.id === m.media_id ? found.meta : undefined
}

const names = new Map()
/** Who added it. A media item says that by an id. */
function useAuthor({ org_id, uploader_id: id }) {
  const [known, setKnown] = useState()
  if (!names.has(org_id)) names.set(org_id, newNames({ org_id }))
  useEffect(() => {
    let isGone = false
    names
      .get(org_id)
      .need([id])
      .then(
        () => isGone || setKnown(id),
        // Guests of an event get no names of members.
        (error) => isGone || error.status !== 404 || setKnown(null),
      )
    return () => {
      isGone = true
    }
  }, [org_id, id])
  return known === null ? '' : known === id ? names.get(org_id).of(id) : '…'
}

/** Beside the picture: what the file says of itself. */
export function Details({ m, meta }) {
  const author = useAuthor(m)
  return html`
    <aside id="viewer-details" class="beside" aria-label="Details">
      <dl id="viewer-facts">
        ${factsOf(m, meta, author)
          .filter(([, value]) => value)
          .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd dir="auto">${value}</dd></div>`)}
      </dl>
    </aside>`
}

const factsOf = (m, meta, author) => [
  ['Name', nameOf(m)],
  [m.captured_at ? 'Taken' : 'Added', momentOf(m)],
  ['Added by', author],
  ['Length', meta?.duration_sec && clock(meta.duration_sec)],
  ['Dimensions', meta?.width && `${meta.width} × ${meta.height}`],
  ['Size', size(m.file_size_bytes)],
  ['Camera', [meta?.camera.make, meta?.camera.model].filter(Boolean).join(' ')],
  ['Exposure', exposureOf(meta?.exif ?? {})],
  ['Lens', meta?.exif.LensModel],
  ['Place', meta?.location && `${meta.location.latitude.toFixed(4)}, ${meta.location.longitude.toFixed(4)}`],
  ['Streams', meta?.conversion.renditions.map((r) => r.name).join(', ')],
  ['Not converted', m.upload_status === 'failed' && reasonOf(m)?.long],
]

const EXPOSURE = {
  ExposureTime: (text) => `${text} s`,
  FNumber: (text) => text,
  ISOSpeedRatings: (text) => `ISO ${text}`,
  FocalLength: (text) => text,
}
const exposureOf = (exif) =>
  Object.entries(EXPOSURE)
    .flatMap(([tag, show]) => (exif[tag] ? [show(exif[tag])] : []))
    .join(' · ')
