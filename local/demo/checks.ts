import { checkLivePhoto, checkPhoto } from './check-pictures.ts'
import { checkStream, durationOf } from './check-stream.ts'
import { library } from './client.ts'
import type { Content, Pictures, Stage } from './content.ts'
import { type Highlight, untilRendered } from './highlight.ts'
import type { Samples } from './samples.ts'
import { megabytes } from './terminal.ts'

/**
 * `CHECK=1`: looks at everything that arrives, as a strict client would, while the rest is still on its way. Throws a
 * sentence about the first error.
 */
export async function checkContent(stage: Stage, content: Content, samples: Samples): Promise<void> {
  const pictures = Promise.all([content.pictures, samples.photos, content.video]).then(([ids, made]) =>
    checkPictures(stage, ids, made.live.video),
  )
  const video = Promise.all([content.media, samples.video]).then(async ([media, path]) =>
    checkVideo(stage, media.variants.hls_master_url ?? '', await durationOf(path)),
  )
  const highlight = content.highlight.then(async (id) => {
    if (!id) throw new Error('There is no highlight')
    await checkHighlight(stage, await finishedHighlight(stage, id))
  })
  await Promise.all([pictures, video, highlight])
}

async function checkPictures({ out, client, organization }: Stage, ids: Pictures, motion: string) {
  const { media, total } = await library(client, organization)
  // With the Live Photo and the video.
  const wanted = ids.photos.length + 2
  if (total !== wanted) throw new Error(`The months count ${total} media items, not ${wanted}`)
  for (const id of ids.photos) {
    const photo = media.find((m) => m.media_id === id)
    if (!photo) throw new Error(`The list lacks ${id}`)
    await checkPhoto(photo)
  }
  out.say(`Checked    ${ids.photos.length} photos: placeholder, image, WebP and thumbnail, without EXIF`)
  await checkLivePhoto(ids.live, media, await durationOf(motion))
  out.say('Checked    Live Photo: one media item, and its motion plays')
}

/** A person watches the highlight being made; a check waits for it. */
async function finishedHighlight({ out, client, organization }: Stage, id: string): Promise<Highlight> {
  const line = out.statusLine('Highlight')
  const started = performance.now()
  const highlight = await untilRendered(client, { organization, id }, ({ progress }) =>
    line.show((progress?.percent ?? 0) / 100, `${Math.round(progress?.percent ?? 0)} %`),
  )
  const items = `${highlight.media_ids.length} items, ${highlight.estimated_duration_sec.toFixed(1)} s`
  line.end(`${items}: completed in ${((performance.now() - started) / 1000).toFixed(1)} s`)
  return highlight
}

async function checkHighlight({ out }: Stage, highlight: Highlight): Promise<void> {
  const { estimated_duration_sec: expected, duration_sec: seconds, variants } = highlight
  if (!variants.hls_master_url || seconds === null) throw new Error('The highlight is completed and cannot be played')
  if (Math.abs(seconds - expected) > 1)
    throw new Error(`The highlight lasts ${seconds} s, the estimate was ${expected} s`)
  const { renditions } = await checkStream(variants.hls_master_url, expected, 1)
  out.say(`Checked    highlight: ${renditions.length} playlists of ${seconds.toFixed(1)} s, every segment decoded`)
}

async function checkVideo({ out }: Stage, master: string, seconds: number): Promise<void> {
  const { renditions } = await checkStream(master, seconds)
  for (const r of renditions) {
    const name = new URL(r.url).pathname.split('/').at(-1)
    const decoded = `${r.decodedSeconds.toFixed(2)} s decoded`
    out.say(`Checked    ${name}: ${r.segments} segments, ${megabytes(r.bytes)}, ${decoded}`)
  }
  const count = `${renditions.length} rendition${renditions.length === 1 ? '' : 's'} of ${seconds.toFixed(2)} s`
  out.say(`The stream plays: ${count}, every segment fetched and decoded.`)
}
