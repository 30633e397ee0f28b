import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import type { Demo } from '../demo-file.ts'
import { type Client, library, type Media, Refused, signIn, untilConverted, upload } from './client.ts'
import { sampleEvents } from './events.ts'
import { sampleHighlight } from './highlight.ts'
import { sampleMemories } from './memories.ts'
import type { SamplePhotos } from './sample-photos.ts'
import type { Samples } from './samples.ts'
import { megabytes, type Terminal } from './terminal.ts'
import { offerTracks, type Place } from './tracks.ts'

const ALBUM_ITEMS = 6

/** Where content arrives, and who brings it. */
export interface Stage {
  out: Terminal
  demo: Demo
  place: Place
  /** The member, signed in. */
  client: Client
  organization: string
}

/** What becomes of the samples, each part as soon as it is there. A part fails with the error of what it needs. */
export interface Content {
  pictures: Promise<Pictures>
  event: Promise<string>
  album: Promise<string>
  /** Once the video is uploaded. */
  video: Promise<string>
  /** Once it is converted. */
  media: Promise<Media>
  /** A highlight that is then being made; undefined where none can be. */
  highlight: Promise<string | undefined>
}

/**
 * Uploads the samples as they are made, through the API as an app would, and makes an event, an album and a highlight of
 * them. What does not need each other goes on side by side. What an earlier run has brought is found, but for the video:
 * its conversion is there to be watched.
 */
export function bringContent(stage: Stage, samples: Samples): Content {
  const pictures = samples.photos.then((made) => showPictures(stage, made))
  const event = showEvents(stage)
  const album = Promise.all([event, pictures]).then(([id]) => showMemories(stage, id))
  const video = samples.video.then((path) => showUpload(stage, path))
  const media = video.then((id) => showConversion(stage, id))
  const track = samples.tracks.then((tracks) => offerTracks(stage.place, tracks))
  const { organization } = stage
  const highlight = Promise.all([event, album, video, track, media]).then(([event, album, video, track]) =>
    showHighlight(stage, { organization, event, album, video, track }),
  )
  return { pictures, event, album, video, media, highlight }
}

/** Ids of the photos, and of both halves of the Live Photo; of the video only where this run has uploaded it. */
export interface Pictures {
  photos: string[]
  live: { image: string; video: string | undefined }
}

/**
 * Uploads the photos and the Live Photo, those that no earlier run has uploaded, and waits until all of them are converted.
 */
async function showPictures({ out, client, organization }: Stage, { photos, live }: SamplePhotos): Promise<Pictures> {
  const line = out.statusLine('Photos')
  const { media } = await library(client, organization)
  const known = new Map(media.filter((m) => m.upload_status !== 'failed').map((m) => [m.original_filename, m.media_id]))
  const missing = photos.filter((path) => !known.has(basename(path)))
  const half = halfOf(live, media)
  const total = missing.length + (half.isWhole ? 0 : half.image ? 1 : 2)
  let sent = 0
  const send: Send = async (path, pairId) => {
    const id = await upload(client, organization, path, () => {}, pairId)
    line.show(++sent / (2 * total), `${sent} of ${total} files uploaded`)
    return id
  }
  const ids: Pictures = { photos: [], live: { image: '', video: undefined } }
  for (const path of photos) ids.photos.push(known.get(basename(path)) ?? (await send(path)))
  ids.live = await sendLivePhoto(live, media, send)
  const all = [...ids.photos, ids.live.image, ...(ids.live.video ? [ids.live.video] : [])]
  for (const [ready, id] of all.entries()) {
    await untilConverted(client, organization, id, () => {})
    if (total > 0)
      line.show((all.length + ready + 1) / (2 * all.length), `${ready + 1} of ${all.length} files converted`)
  }
  const pair = `${basename(live.image)} with ${basename(live.video)}`
  line.end(total > 0 ? `${photos.length} photos and a Live Photo (${pair})` : 'uploaded by an earlier run')
  return ids
}

type Send = (path: string, pairId?: string) => Promise<string>

/** The image, also one that could not be converted: it keeps its pair id. */
function halfOf(live: SamplePhotos['live'], media: readonly Media[]) {
  const image = media.find((m) => m.original_filename === basename(live.image))
  return { image: image?.media_id, isWhole: Boolean(image?.variants.live_photo_video_url) }
}

/** Sends what the library lacks of the Live Photo. The ids are those of `Pictures`. */
export async function sendLivePhoto(
  live: SamplePhotos['live'],
  media: readonly Media[],
  send: Send,
): Promise<Pictures['live']> {
  const known = halfOf(live, media)
  // The same in every run: a run that was stopped between the halves has left a photo, which now gets its motion.
  const digest = createHash('sha256').update(await readFile(live.image))
  const pairId = digest.digest('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5')
  const image = known.image ?? (await send(live.image, pairId))
  if (known.isWhole) return { image, video: undefined }
  const video = await send(live.video, pairId).catch((error: unknown) => {
    // It is there already, and not converted yet.
    if (error instanceof Refused && error.status === 409) return undefined
    throw error
  })
  return { image, video }
}

/** Returns the id of an event with guests. */
async function showEvents({ out, client: host, organization, demo }: Stage): Promise<string> {
  const line = out.statusLine('Events')
  const { owner, admin } = demo.accounts
  const guests = [{ userId: owner.user_id, client: await signIn(demo.base_url, owner) }, { userId: admin.user_id }]
  const { event_id, title } = await sampleEvents(host, organization, guests)
  line.end(`“${title}” with guests, and a draft`)
  return event_id
}

/** Returns the id of the album of the event, with the photos of the library that were taken last. */
async function showMemories({ out, client: host, organization, demo }: Stage, event: string): Promise<string> {
  const line = out.statusLine('Album')
  const { owner, member } = demo.accounts
  const friends = { host, hostId: member.user_id, guest: await signIn(demo.base_url, owner) }
  const { media } = await library(host, organization)
  const photos = media.filter((m) => m.mime_type.startsWith('image/') && m.upload_status === 'completed')
  const ids = photos.slice(0, ALBUM_ITEMS).map((m) => m.media_id)
  const { album_id, media_count } = await sampleMemories(friends, { organization, event, media: ids })
  line.end(`of the event, with ${media_count} photos, comments and reactions`)
  return album_id
}

async function showUpload({ out, client, organization }: Stage, video: string): Promise<string> {
  const line = out.statusLine('Upload')
  const started = performance.now()
  const mediaId = await upload(client, organization, video, (sent, total) => {
    const rate = sent / ((performance.now() - started) / 1000)
    line.show(sent / total, `${megabytes(sent)} of ${megabytes(total)}, ${megabytes(rate)}/s`)
  })
  line.end(`${megabytes((await stat(video)).size)} in chunks, last ones first: ${mediaId}`)
  return mediaId
}

async function showConversion({ out, client, organization }: Stage, mediaId: string): Promise<Media> {
  const line = out.statusLine('Conversion')
  const started = performance.now()
  const elapsed = () => `${((performance.now() - started) / 1000).toFixed(1)} s`
  let playable: string | undefined
  const media = await untilConverted(client, organization, mediaId, (seen) => {
    const { percent = 0, speed, eta_sec: eta } = seen.conversion_progress ?? {}
    if (seen.variants.hls_master_url) playable ??= elapsed()
    const parts = [
      `${Math.round(percent).toString().padStart(3)} %`,
      speed && `speed ${speed}`,
      eta !== null && eta !== undefined && `${eta} s left`,
      playable && `playable since ${playable}`,
    ]
    line.show(percent / 100, parts.filter(Boolean).join('  '))
  })
  if (!media.variants.hls_master_url) throw new Error('The video is converted, but there is no link to its stream')
  line.end(`completed in ${elapsed()}, playable after ${playable ?? elapsed()}`)
  return media
}

/** Returns the id of a highlight of the event, which is then being made; undefined where none can be. */
async function showHighlight(
  { out, client }: Stage,
  sources: Parameters<typeof sampleHighlight>[1],
): Promise<string | undefined> {
  const line = out.statusLine('Highlight')
  const id = await sampleHighlight(client, sources)
  line.end(id ? `of the event, with music: ${id}` : 'none: the event or its album is archived')
  return id
}
