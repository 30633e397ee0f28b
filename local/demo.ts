import { mkdtempSync } from 'node:fs'
import { rm, stat } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkStream, durationOf } from './demo/check-stream.ts'
import { type Client, type Media, signIn, untilConverted, upload } from './demo/client.ts'
import { SAMPLE_SECONDS, sampleVideo } from './demo/sample-video.ts'
import { megabytes, type Terminal, terminal } from './demo/terminal.ts'
import { type Platform, startPlatform } from './platform.ts'
import { endAtOnce, runUntilSignal } from './until-signal.ts'

// Files that this process and its children create are readable by this user only.
process.umask(0o077)

/** `make demo`: takes a video through the whole platform. `VIDEO=path` uses yours, `CHECK=1` plays it and exits. */
const isCheck = /^(1|true|yes)$/i.test(process.env['CHECK'] ?? '')

await runUntilSignal(async (onStop, stopped) => {
  const out = terminal(stopped)
  const video = await chooseVideo(out)
  const seconds = await durationOf(video)
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

  const mediaId = await showUpload(out, client, organization.org_id, video)
  const media = await showConversion(out, client, organization.org_id, mediaId)
  const master = media.variants.hls_master_url
  if (!master) throw new Error('The video is converted, but there is no link to its stream')
  if (isCheck) {
    await check(out, master, seconds)
    return 'done'
  }
  farewell(out, platform, client, organization.org_id, media)
  return 'stay'
})

async function chooseVideo(out: Terminal): Promise<string> {
  const own = process.env['VIDEO']
  if (own) {
    const path = own.replace(/^~(?=\/)/, homedir())
    if (!(await stat(path).catch(() => undefined))?.isFile()) throw new Error(`VIDEO=${own} is not a file`)
    return path
  }
  const path = join('.keepsake', 'samples', 'fractal-journey.mp4')
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
  media: Media,
): void {
  out.say(`
Watch it:  ${page.link({ account: 'member', media: media.media_id })}

Continue by hand (the token expires in 15 minutes; more accounts in ${folder}/demo.json):

  TOKEN=${client.token}
  curl -H "Authorization: Bearer $TOKEN" ${demo.base_url}/api/media/${organization}/${media.media_id}
  curl -H "Authorization: Bearer $TOKEN" ${demo.base_url}/api/media/${organization}
  ffplay '${media.variants.hls_master_url}'

Reference of all operations: ${demo.public_url}/docs
Ctrl-C stops everything.`)
}
