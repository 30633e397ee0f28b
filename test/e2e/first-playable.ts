import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { noBrowser, openBrowser } from '../support/browser.ts'
import { clip } from '../support/clips.ts'
import { eventually } from '../support/eventually.ts'
import { pacedPath } from '../support/paced-ffmpeg.ts'
import { progressReceiver, transcodeBench } from '../support/transcode-run.ts'

/**
 * A viewer who starts at the first playable moment of a video, with hls.js in a real Chromium behind the line of a phone,
 * while the smallest rendition runs ahead and one process for all takes over. Takes over 20 s: it plays in real time.
 */

if (noBrowser) {
  t.plan(0, noBrowser)
  process.exit()
}

/** Lighthouse's slow 4G. */
const PHONE = { offline: false, latency: 150, downloadThroughput: 1_600_000 / 8, uploadThroughput: 750_000 / 8 }
const HLS = new URL('../../node_modules/hls.js/dist/hls.min.js', import.meta.url)
const PAGE = `<!doctype html><video muted playsinline></video><script src="/hls.js"></script><script>
  globalThis.seen = { waits: [], errors: [], started: false, time: 0 }
  const video = document.querySelector('video')
  video.addEventListener('playing', () => (seen.started = true))
  video.addEventListener('waiting', () => seen.started && seen.waits.push(video.currentTime))
  video.addEventListener('timeupdate', () => (seen.time = video.currentTime))
  const hls = new Hls()
  hls.on(Hls.Events.ERROR, (_, { details, fatal }) => {
    if (fatal || /stall|seekoverhole|nudge/i.test(details)) seen.errors.push(details)
  })
  hls.loadSource('/v/master.m3u8')
  hls.attachMedia(video)
  video.play()
</script>`

interface Seen {
  waits: number[]
  errors: string[]
  time: number
}

/** What is in the store, for players. */
async function serve(t: Test, bytes: (name: string) => Promise<Buffer>): Promise<string> {
  const bodyOf = (url: string) => {
    if (url === '/') return Promise.resolve(PAGE)
    return url === '/hls.js' ? readFile(HLS) : bytes(url.replace('/v/', ''))
  }
  const server = createServer(({ url = '/' }, res) => {
    bodyOf(url).then(
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

t.test('whoever starts at the first playable moment never waits', async (t: Test) => {
  const browser = await openBrowser()
  t.teardown(() => browser.close())
  const bench = await transcodeBench(t)
  const address = await serve(t, (name) => bench.bytes(name))
  const input = await bench.inputOf(await clip('longSparse'))
  const page = await browser.newPage()
  const devtools = await page.context().newCDPSession(page)
  await devtools.send('Network.enable')
  await devtools.send('Network.emulateNetworkConditions', PHONE)
  // Not faster than the first pass lets one expect: 6 times 0.39, the share of its cost, less the margin.
  const PATH = await pacedPath(bench.folder, { ahead: 6, others: 1.9 })
  const receiver = await progressReceiver(t)
  const env = { PATH, PROGRESS_URL: receiver.url, PROGRESS_TOKEN: 'x' }
  const job = bench.start([input], { segmentSeconds: 2, renditions: ['360p', '720p'] }, env)
  t.teardown(() => job.process.kill('SIGKILL'))
  await eventually('a master playlist', () => bench.store.head(`${bench.prefix}master.m3u8`))
  await page.goto(address)
  const seen = await eventually(
    '26 seconds',
    async () => {
      const now = await page.evaluate<Seen>('seen')
      return now.time >= 26 ? now : undefined
    },
    undefined,
    250,
  )
  t.strictSame(seen.waits, [], 'no wait')
  t.strictSame(seen.errors, [], 'nothing that hls.js had to help over')
  t.match(receiver.reports.at(-1)?.planReason, /^360p ran ahead for \d+ s/)
})
