import { thumbHashToRGBA } from 'thumbhash'
import { link } from './api.js'
import { html, useEffect, useLayoutEffect, useRef, useState } from './html.js'
import { mediaOf, useMediaOf } from './media-cache.js'

/** Draws the blurred picture of a thumbhash. False when there is none, or none that can be read. */
function drawPlaceholder(canvas, hash) {
  if (!hash || canvas.dataset.hash === hash) return Boolean(hash)
  try {
    const { w, h, rgba } = thumbHashToRGBA(Uint8Array.from(atob(hash), (c) => c.charCodeAt(0)))
    Object.assign(canvas, { width: w, height: h })
    canvas.getContext('2d').putImageData(new ImageData(new Uint8ClampedArray(rgba), w, h), 0, 0)
    canvas.dataset.hash = hash
    return true
  } catch {
    return false
  }
}

/** The blur of a media item, while its picture is loaded. */
export function Blur({ hash }) {
  const ref = useRef()
  useLayoutEffect(() => {
    ref.current.hidden = !drawPlaceholder(ref.current, hash)
  }, [hash])
  return html`<canvas ref=${ref} class="blur" hidden></canvas>`
}

const smallUrl = (m) => m.variants?.image_thumb_url
export const largeUrl = (m) => m.variants?.image_webp_url ?? m.variants?.image_url ?? smallUrl(m)

/**
 * A media item as a picture that fills its frame: the blur at once, then the picture above it. A link that has expired is
 * asked for once more by `refresh()`, which returns the media item with new links. `urlOf` chooses the size.
 */
export function Picture({ m, refresh, urlOf = smallUrl, alt = '', isLazy }) {
  const [isLoaded, setLoaded] = useState(false)
  const [fresh, setFresh] = useState()
  const asked = useRef(false)
  // The first link stays: a later answer has another one for the same picture, which would load it again.
  const first = useRef()
  const url = urlOf(fresh ?? m)
  if (!first.current || fresh) first.current = url
  const onError = async () => {
    if (asked.current || !refresh) return
    asked.current = true
    const again = await Promise.resolve(refresh()).catch(() => undefined)
    if (again) setFresh(again)
  }
  return html`
    <${Blur} hash=${m.placeholder} />
    ${/* Links of the same quarter of an hour are alike: another element asks again. */ first.current && html`<img key=${String(Boolean(fresh))} class=${`thumb ${isLoaded ? 'loaded' : ''}`} src=${link(first.current)} alt=${alt} decoding="async" loading=${isLazy && 'lazy'} draggable=${false} onLoad=${() => setLoaded(true)} onError=${onError} />`}`
}

/** The picture of a media item of which only the id is known. `onFound(m)` tells what it is, undefined when it is gone. */
export function PictureOf({ org, id, onFound, ...rest }) {
  const m = useMediaOf(org, id)
  useEffect(() => {
    if (id && m !== undefined) onFound?.(m ?? undefined)
  }, [id, m])
  return m && html`<${Picture} key=${id} m=${m} refresh=${() => mediaOf(org, id, { isFresh: true })} ...${rest} />`
}
