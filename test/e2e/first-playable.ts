import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { rational, toNumber } from '../../jobs/ffmpeg/rational.ts'
import { ladderOf } from '../../jobs/hls/ladder.ts'
import { formatMediaPlaylist, type MediaPlaylist, parseMediaPlaylist } from '../../jobs/hls/media-playlist.ts'
import { passCosts } from '../../jobs/hls/pass-plan.ts'
import { mayStop, type RunAhead, speedOfAll } from '../../jobs/hls/run-ahead.ts'
import { noBrowser, openBrowser } from '../support/browser.ts'
import { clip } from '../support/clips.ts'
import { eventually } from '../support/eventually.ts'
import { transcodeBench } from '../support/transcode-run.ts'

/**
 * A viewer who starts at the first playable moment of a video, with hls.js in a real Chromium, while the smallest rendition
 * runs ahead and one process for all takes over. The lists grow with what is played instead of with the time that passes:
 * a viewer who would have to wait for a segment waits for ever, and a busy machine changes nothing. Takes over 20 s: it
 * plays in real time.
 */

if (noBrowser) {
  t.plan(0, noBrowser)
  process.exit()
}

const SEGMENT_SECONDS = 4
const picture = { width: 960, height: 720, frameRate: rational(10) }
const ladder = ladderOf(picture, ['360p', '720p'])
const run: RunAhead = {
  seconds: 120,
  segmentSeconds: SEGMENT_SECONDS,
  frameRate: toNumber(picture.frameRate),
  costs: passCosts(ladder, { ...picture, hasAudio: true }),
}
/** Of the first pass; the slowest here at which another process takes over. */
const SPEED = 7
/** Of the other process. */
const START_SECONDS = 1
const LOOKAHEAD_SECONDS = 40 / run.frameRate

/** The seconds of the video that the first pass has covered when it is stopped, and when that is. */
function takeover(): { covered: number; at: number } {
  for (let covered = SEGMENT_SECONDS; covered < run.seconds; covered += SEGMENT_SECONDS) {
    const at = (covered - SEGMENT_SECONDS) / SPEED
    if (mayStop(run, { covered, made: covered + 1, speed: SPEED, playableFor: at })) return { covered, at }
  }
  throw new Error('it goes on to the end')
}
const { covered, at } = takeover()

/** How much of the video there is, so many seconds after it became playable. */
function thereAfter(seconds: number): number {
  const ahead = Math.min(covered, SEGMENT_SECONDS + SPEED * seconds)
  const all = speedOfAll(run, SPEED) * (seconds - at - START_SECONDS) - LOOKAHEAD_SECONDS
  return Math.max(ahead, all)
}

/** The list as a viewer knows it who has played so far without a wait: it is as old as players let it become. */
function listAt({ segments }: MediaPlaylist, played: number): string {
  const there = thereAfter(Math.max(0, played - SEGMENT_SECONDS / 2))
  const listed = segments.slice(0, Math.floor(there / SEGMENT_SECONDS))
  return formatMediaPlaylist({ segments: listed, ended: listed.length === segments.length }, SEGMENT_SECONDS)
}

const HLS = new URL('../../node_modules/hls.js/dist/hls.min.js', import.meta.url)
const PAGE = `<!doctype html><video muted playsinline></video><script src="/hls.js"></script><script>
  globalThis.seen = { errors: [], time: 0 }
  const video = document.querySelector('video')
  video.addEventListener('timeupdate', () => (seen.time = video.currentTime))
  const hls = new Hls({ xhrSetup: (xhr, url) => xhr.open('GET', url + '?played=' + video.currentTime) })
  hls.on(Hls.Events.ERROR, (_, { details, fatal }) => fatal && seen.errors.push(details))
  hls.loadSource('/v/master.m3u8')
  hls.attachMedia(video)
  video.play()
</script>`

interface Seen {
  errors: string[]
  time: number
}

/** The page, and the files of a job as its viewer finds them. */
async function serve(t: Test, bytes: (name: string) => Promise<Buffer>): Promise<string> {
  async function bodyOf(url: URL): Promise<Buffer | string> {
    if (url.pathname === '/') return PAGE
    if (url.pathname === '/hls.js') return readFile(HLS)
    const body = await bytes(url.pathname.replace('/v/', ''))
    const isList = url.pathname.endsWith('.m3u8') && !url.pathname.endsWith('/master.m3u8')
    const list = isList ? parseMediaPlaylist(body.toString()) : undefined
    return list ? listAt(list, Number(url.searchParams.get('played'))) : body
  }
  const server = createServer(({ url = '/' }, res) => {
    bodyOf(new URL(url, 'http://localhost')).then(
      (body) => res.setHeader('content-type', url === '/' ? 'text/html' : 'application/octet-stream').end(body),
      () => res.writeHead(404).end(),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

t.test(
  'a viewer who starts at the first playable moment plays on where the other process takes over',
  async (t: Test) => {
    const browser = await openBrowser()
    t.teardown(() => browser.close())
    const bench = await transcodeBench(t)
    // The files that the viewer plays are the same where the job makes no others.
    const spec = { segmentSeconds: SEGMENT_SECONDS, renditions: ['360p' as const] }
    const { exit, output } = await bench.run([await bench.inputOf(await clip('longSparse'))], spec)
    t.equal(exit, 0, 'exits with 0', { output })
    const page = await browser.newPage()
    await page.goto(await serve(t, (name) => bench.bytes(name)))
    const look = async () => {
      const now = await page.evaluate<Seen>('seen')
      return now.time >= covered + 2 * SEGMENT_SECONDS || now.errors.length > 0 ? now : undefined
    }
    const seen = await eventually('two segments of the other process', look, undefined, 250)
    t.strictSame(seen.errors, [], 'nothing that stops hls.js')
  },
)
