import { randomUUID } from 'node:crypto'
import { mkdtempSync } from 'node:fs'
import { rm, stat } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { checkLivePhoto, checkPhoto } from './demo/check-pictures.ts'
import { checkStream, durationOf } from './demo/check-stream.ts'
import { type Client, library, type Media, signIn, untilConverted, upload } from './demo/client.ts'
import { sampleEvents } from './demo/events.ts'
import { type Highlight, sampleHighlight, untilRendered } from './demo/highlight.ts'
import { sampleMemories } from './demo/memories.ts'
import { sampleTracks } from './demo/sample-music.ts'
import { type Samples, samplePhotos } from './demo/sample-photos.ts'
import { SAMPLE_SECONDS, sampleVideo } from './demo/sample-video.ts'
import { megabytes, type Terminal, terminal } from './demo/terminal.ts'
import { offerTracks } from './demo/tracks.ts'
import { type Platform, startPlatform } from './platform.ts'
import { endAtOnce, runUntilSignal } from './until-signal.ts'

// Files that this process and its children create are readable by this user only.
process.umask(0o077)

/**
 * `make demo`: takes photos, a Live Photo and a video through the whole platform, and makes a highlight of them. `VIDEO=path`
 * uses your video, `CHECK=1` checks what became of all of them and exits.
 */
const SAMPLES = join('.keepsake', 'samples')
const ALBUM_ITEMS = 6
const isCheck = /^(1|true|yes)$/i.test(process.env['CHECK'] ?? '')

await runUntilSignal(async (onStop, stopped) => {
  const out = terminal(stopped)
  const video = await chooseVideo(out)
  const seconds = await durationOf(video)
  const [samples, tracks] = await Promise.all([samplePhotos(SAMPLES), sampleTracks(SAMPLES)])
  // A check must neither depend on the data of earlier runs nor leave any.
  const folder = isCheck ? mkdtempSync(join(tmpdir(), 'keepsake-demo-')) : '.keepsake'
  if (isCheck) onStop(() => rm(folder, { recursive: true, force: true }))

  const starting = start(out, folder)
  // Registered before the platform has started: Ctrl-C during the start waits for it, then stops everything.
  onStop(() =>
    starting.then(
      (platform) => platform.close(),
      () => undefined,
    ),
  )
  const platform = await starting
  const { demo } = platform
  const [organization] = demo.organizations
  if (!organization) throw new Error('The platform has no organization')
  const { member } = demo.accounts
  const client = await signIn(demo.base_url, member)
  out.say(`Signed in as ${member.name}, member of ${organization.name}\n`)

  const org = organization.org_id
  const event = await showEvents(out, platform, client, org)
  const pictures = await showPictures(out, client, org, samples)
  const album = await showMemories(out, platform, client, { organization: org, event })
  const mediaId = await showUpload(out, client, org, video)
  const media = await showConversion(out, client, org, mediaId)
  const master = media.variants.hls_master_url
  if (!master) throw new Error('The video is converted, but there is no link to its stream')
  const track = await offerTracks({ database: demo.database_url, objects: join(platform.folder, 'objects') }, tracks)
  const sources = { organization: org, event, album, video: mediaId, track }
  const highlight = await showHighlight(out, client, sources)
  if (isCheck && pictures) {
    await checkPictures(out, client, org, pictures, samples)
    if (!highlight) throw new Error('There is no highlight')
    await checkHighlight(out, await finishedHighlight(out, client, org, highlight))
    await check(out, master, seconds)
    return 'done'
  }
  farewell(out, platform, client, org, { media, event, album, highlight })
  return 'stay'
})

async function chooseVideo(out: Terminal): Promise<string> {
  const own = process.env['VIDEO']
  if (own) {
    const path = own.replace(/^~(?=\/)/, homedir())
    if (!(await stat(path).catch(() => undefined))?.isFile()) throw new Error(`VIDEO=${own} is not a file`)
    return path
  }
  const path = join(SAMPLES, 'fractal-journey.mp4')
  out.say(`Sample video: ${SAMPLE_SECONDS} s in 1080p (made once)`)
  await sampleVideo(path)
  return path
}

async function start(out: Terminal, folder: string): Promise<Platform> {
  const line = out.statusLine('Starting')
  const steps = 8
  let step = 0
  const platform = await startPlatform({
    folder,
    // A check may run beside `npm start`.
    usualPorts: !isCheck,
    onFatal: endAtOnce,
    onStatus: (text) => line.show(++step / steps, text),
  })
  line.end('ready')
  return platform
}

async function showUpload(out: Terminal, client: Client, organization: string, video: string): Promise<string> {
  const line = out.statusLine('Upload')
  const started = performance.now()
  const mediaId = await upload(client, organization, video, (sent, total) => {
    const rate = sent / ((performance.now() - started) / 1000)
    line.show(sent / total, `${megabytes(sent)} of ${megabytes(total)}, ${megabytes(rate)}/s`)
  })
  line.end(`${megabytes((await stat(video)).size)} in chunks, last ones first: ${mediaId}`)
  return mediaId
}

/** Returns the id of an event with guests. */
async function showEvents(out: Terminal, { demo }: Platform, host: Client, organization: string): Promise<string> {
  const line = out.statusLine('Events')
  const { owner, admin } = demo.accounts
  const guests = [{ userId: owner.user_id, client: await signIn(demo.base_url, owner) }, { userId: admin.user_id }]
  const { event_id, title } = await sampleEvents(host, organization, guests)
  line.end(`“${title}” with guests, and a draft`)
  return event_id
}

/** Returns the id of the album of the event, with the photos of the library that were taken last. */
async function showMemories(
  out: Terminal,
  { demo }: Platform,
  host: Client,
  { organization, event }: { organization: string; event: string },
): Promise<string> {
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

/** Ids of the photos, and of both halves of the Live Photo. */
interface Pictures {
  photos: string[]
  live: { image: string; video: string }
}

/**
 * Uploads the photos and the Live Photo, and waits until all of them are converted. Undefined when an earlier run has
 * uploaded them.
 */
async function showPictures(
  out: Terminal,
  client: Client,
  organization: string,
  { photos, live }: Samples,
): Promise<Pictures | undefined> {
  const line = out.statusLine('Photos')
  const known = new Set((await library(client, organization)).media.map((m) => m.original_filename))
  if ([...photos, live.image].every((path) => known.has(basename(path)))) {
    line.end('uploaded by an earlier run')
    return undefined
  }
  const total = photos.length + 2
  let sent = 0
  const send = async (path: string, pairId?: string) => {
    const id = await upload(client, organization, path, () => {}, pairId)
    line.show(++sent / (2 * total), `${sent} of ${total} files uploaded`)
    return id
  }
  const pairId = randomUUID()
  const ids: Pictures = {
    photos: await inOrder(photos, (path) => send(path)),
    live: { image: await send(live.image, pairId), video: await send(live.video, pairId) },
  }
  let ready = 0
  for (const id of [...ids.photos, ids.live.image, ids.live.video]) {
    await untilConverted(client, organization, id, () => {})
    line.show((total + ++ready) / (2 * total), `${ready} of ${total} files converted`)
  }
  line.end(`${photos.length} photos and a Live Photo (${basename(live.image)} with ${basename(live.video)})`)
  return ids
}

async function inOrder<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (const item of items) results.push(await work(item))
  return results
}

async function checkPictures(out: Terminal, client: Client, organization: string, ids: Pictures, samples: Samples) {
  const { media, total } = await library(client, organization)
  const wanted = ids.photos.length + 2
  if (total !== wanted) throw new Error(`The months count ${total} media items, not ${wanted}`)
  for (const id of ids.photos) {
    const photo = media.find((m) => m.media_id === id)
    if (!photo) throw new Error(`The list lacks ${id}`)
    await checkPhoto(photo)
  }
  out.say(`Checked    ${ids.photos.length} photos: placeholder, image, WebP and thumbnail, without EXIF`)
  await checkLivePhoto(ids.live, media, await durationOf(samples.live.video))
  out.say('Checked    Live Photo: one media item, and its motion plays')
}

async function showConversion(out: Terminal, client: Client, organization: string, mediaId: string): Promise<Media> {
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
  line.end(`completed in ${elapsed()}, playable after ${playable ?? elapsed()}`)
  return media
}

/** Returns the id of a highlight of the event, which is then being made; undefined where none can be. */
async function showHighlight(
  out: Terminal,
  client: Client,
  sources: Parameters<typeof sampleHighlight>[1],
): Promise<string | undefined> {
  const line = out.statusLine('Highlight')
  const id = await sampleHighlight(client, sources)
  line.end(id ? `of the event, with music: ${id}` : 'none: the event or its album is archived')
  return id
}

/** A person watches the highlight being made; a check waits for it. */
async function finishedHighlight(out: Terminal, client: Client, organization: string, id: string): Promise<Highlight> {
  const line = out.statusLine('Highlight')
  const started = performance.now()
  const highlight = await untilRendered(client, { organization, id }, ({ progress }) =>
    line.show((progress?.percent ?? 0) / 100, `${Math.round(progress?.percent ?? 0)} %`),
  )
  const items = `${highlight.media_ids.length} items, ${highlight.estimated_duration_sec.toFixed(1)} s`
  line.end(`${items}: completed in ${((performance.now() - started) / 1000).toFixed(1)} s`)
  return highlight
}

async function checkHighlight(out: Terminal, highlight: Highlight): Promise<void> {
  const { estimated_duration_sec: expected, duration_sec: seconds, variants } = highlight
  if (!variants.hls_master_url || seconds === null) throw new Error('The highlight is completed and cannot be played')
  if (Math.abs(seconds - expected) > 1)
    throw new Error(`The highlight lasts ${seconds} s, the estimate was ${expected} s`)
  const { renditions } = await checkStream(variants.hls_master_url, expected, 1)
  out.say(`Checked    highlight: ${renditions.length} playlists of ${seconds.toFixed(1)} s, every segment decoded`)
}

async function check(out: Terminal, master: string, seconds: number): Promise<void> {
  const { renditions } = await checkStream(master, seconds)
  for (const r of renditions) {
    const name = new URL(r.url).pathname.split('/').at(-1)
    const decoded = `${r.decodedSeconds.toFixed(2)} s decoded`
    out.say(`Checked    ${name}: ${r.segments} segments, ${megabytes(r.bytes)}, ${decoded}`)
  }
  out.say(
    `\nThe stream plays: ${renditions.length} rendition${renditions.length === 1 ? '' : 's'} of ${seconds.toFixed(2)} s, every segment fetched and decoded.`,
  )
}

function farewell(
  out: Terminal,
  { demo, page, folder }: Platform,
  client: Client,
  organization: string,
  { media, event, album, highlight }: { media: Media; event: string; album: string; highlight: string | undefined },
): void {
  out.say(`
Photos:    ${page.link({ account: 'member' })}
           Months with their counts. Rest the pointer on the photo that says Live; on a phone, hold it.
           Drop a folder of your own photos onto the page. What you delete is in the trash, with the days that are left.
Event:     ${page.link({ account: 'member', event })}
           Invite with a link or a QR code, then open the link as someone else. It leads to this machine only.
           Write a comment: @ mentions a member.
Album:     ${page.link({ account: 'member', album })}
           Arrange its photos by dragging them, write below them, publish and archive it.
Highlight: ${highlight ? page.link({ account: 'member', highlight }) : 'none'}
           A highlight of photos and the video, with music: watch it being made. For another one,
           choose items, their order, a transition and a track.
Video:     ${page.link({ account: 'member', media: media.media_id })}

Continue by hand (the token expires in 15 minutes; more accounts in ${folder}/demo.json):

  TOKEN=${client.token}
  curl -H "Authorization: Bearer $TOKEN" ${demo.base_url}/api/media/${organization}/${media.media_id}
  curl -H "Authorization: Bearer $TOKEN" ${demo.base_url}/api/media/${organization}
  ffplay '${media.variants.hls_master_url}'

Reference of all operations: ${demo.public_url}/docs
Ctrl-C stops everything.`)
}
