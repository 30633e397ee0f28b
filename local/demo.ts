import { mkdtempSync } from 'node:fs'
import { rm, stat } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { durationOf } from './demo/check-stream.ts'
import { checkContent } from './demo/checks.ts'
import { type Client, signIn } from './demo/client.ts'
import { bringContent, type Content, type Stage } from './demo/content.ts'
import { makeSamples } from './demo/samples.ts'
import { type Terminal, terminal } from './demo/terminal.ts'
import { type Platform, startPlatform } from './platform.ts'
import { endAtOnce, runUntilSignal } from './until-signal.ts'

// Files that this process and its children create are readable by this user only.
process.umask(0o077)

/**
 * `make demo`: starts the platform, prints the link to its page, and takes photos, a Live Photo and a video through all of
 * it while people look, up to a highlight of them. `VIDEO=path` uses your video, `CHECK=1` checks what became of all of them
 * and exits.
 */
const SAMPLES = join('.keepsake', 'samples')
const isCheck = /^(1|true|yes)$/i.test(process.env['CHECK'] ?? '')

await runUntilSignal(async (onStop, stopped) => {
  // Nothing is said below the error of a check that failed, while the rest is still on its way.
  const checked = new AbortController()
  const out = terminal(AbortSignal.any([stopped, checked.signal]))
  // What is wrong with it is said before anything starts.
  const own = await ownVideo()
  // A check must neither depend on the data of earlier runs nor leave any.
  const folder = isCheck ? mkdtempSync(join(tmpdir(), 'keepsake-demo-')) : '.keepsake'
  if (isCheck) onStop(() => rm(folder, { recursive: true, force: true }))

  const samples = makeSamples(SAMPLES, own)
  const starting = start(out, folder)
  // Registered before the platform has started: Ctrl-C during the start waits for it, then stops everything.
  onStop(() => {
    // Encoders would slow down the rest.
    const ended = samples.close()
    const closed = starting.then(
      (platform) => platform.close(),
      () => undefined,
    )
    return closed.finally(() => ended)
  })
  const platform = await starting
  // It is about to close: there is nothing to say, and nothing to begin.
  if (stopped.aborted) return 'done'
  if (!isCheck) welcome(out, platform)
  const stage = await stageOf(out, platform)
  const content = bringContent(stage, samples)
  if (isCheck) {
    await checkContent(stage, content, samples).finally(() => checked.abort())
    return 'done'
  }
  await settled(out, content)
  await farewell(out, platform, stage.client, stage.organization, content)
  return 'stay'
})

async function ownVideo(): Promise<string | undefined> {
  const own = process.env['VIDEO']
  if (!own) return undefined
  const path = own.replace(/^~(?=\/)/, homedir())
  if (!(await stat(path).catch(() => undefined))?.isFile()) throw new Error(`VIDEO=${own} is not a file`)
  await durationOf(path)
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
    onNotice: (text) => out.say(text),
    onStatus: (text) => line.show(++step / steps, text),
  })
  // Since the start of this process.
  line.end(`ready after ${(performance.now() / 1000).toFixed(1)} s`)
  return platform
}

function welcome(out: Terminal, { page }: Platform): void {
  out.say(`
Open this page. Photos, a video and a highlight of them arrive there while you look:

  ${page.link({ account: 'member' })}
`)
}

async function stageOf(out: Terminal, platform: Platform): Promise<Stage> {
  const { demo } = platform
  const [organization] = demo.organizations
  if (!organization) throw new Error('The platform has no organization')
  const { member } = demo.accounts
  const client = await signIn(demo.base_url, member)
  out.say(`Signed in as ${member.name}, member of ${organization.name}\n`)
  const place = { database: demo.database_url, objects: join(platform.folder, 'objects') }
  return { out, demo, place, client, organization: organization.org_id }
}

/**
 * Waits for everything and says what failed. The platform stays up: its page is open by then, perhaps with photos of one's
 * own on their way, and what does not need the part that failed goes on.
 */
async function settled(out: Terminal, content: Content): Promise<void> {
  const results = await Promise.allSettled(Object.values(content))
  out.closeLines()
  // A part that lacks another one fails with the error of that one.
  const errors = new Set(results.flatMap((result) => (result.status === 'rejected' ? [result.reason as Error] : [])))
  for (const { message } of errors) out.say(`\nFailed: ${message}`)
  if (errors.size > 0)
    out.say('\nThe platform keeps running, without what needs that. The next `make demo` brings what is missing.')
}

async function farewell(
  out: Terminal,
  { demo, page, folder, logFile }: Platform,
  client: Client,
  organization: string,
  content: Content,
): Promise<void> {
  const linkTo = (name: 'event' | 'album' | 'highlight', id: Promise<string | undefined>) =>
    id.then(
      (found) => (found ? page.link({ account: 'member', [name]: found }) : 'none'),
      () => 'none',
    )
  const [event, album, highlight] = await Promise.all([
    linkTo('event', content.event),
    linkTo('album', content.album),
    linkTo('highlight', content.highlight),
  ])
  const media = await content.media.catch(() => undefined)
  const { base_url: base } = demo
  const auth = '-H "Authorization: Bearer $TOKEN"'
  out.say(`
Photos:    ${page.link({ account: 'member' })}
           Months with their counts. Rest the pointer on the photo that says Live; on a phone, hold it.
           Drop a folder of your own photos onto the page. What you delete is in the trash, with the days that are left.
Event:     ${event}
           Invite with a link or a QR code, then open the link as someone else. It leads to this machine only.
           Write a comment: @ mentions a member.
Album:     ${album}
           Arrange its photos by dragging them, write below them, publish and archive it.
Highlight: ${highlight}
           A highlight of photos and the video, with music: watch it being made. For another one,
           choose items, their order, a transition and a track.
Video:     ${media ? page.link({ account: 'member', media: media.media_id }) : 'none'}

Continue by hand (the token expires in 15 minutes; more accounts in ${folder}/demo.json, the log in ${logFile}):

  TOKEN=${client.token}
  curl ${auth} ${base}/api/media/${organization}${
    media
      ? `
  curl ${auth} ${base}/api/media/${organization}/${media.media_id}
  ffplay '${media.variants.hls_master_url}'`
      : ''
  }

Reference of all operations: ${demo.public_url}/docs
Ctrl-C stops everything.`)
}
