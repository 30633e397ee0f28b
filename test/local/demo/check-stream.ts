import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { checkStream, durationOf } from '../../../local/demo/check-stream.ts'
import { closeServer, listenOnPort } from '../../../local/http-server.ts'

const folder = await mkdtemp(join(tmpdir(), 'keepsake-check-'))
const server = createServer((req, res) => {
  readFile(join(folder, req.url ?? '')).then(
    (bytes) => res.end(bytes),
    () => res.writeHead(404).end(),
  )
})
const port = await listenOnPort(server, 0)
t.teardown(async () => {
  await closeServer(server)
  await rm(folder, { recursive: true, force: true })
})

const good = join(folder, 'good')
await mkdir(good)
await promisify(execFile)('ffmpeg', [
  ...['-nostdin', '-v', 'error', '-f', 'lavfi', '-i', 'testsrc2=size=320x180:rate=25:duration=3'],
  ...['-f', 'lavfi', '-i', 'sine=duration=3', '-c:v', 'libx264', '-preset', 'ultrafast', '-g', '25', '-c:a', 'aac'],
  ...['-pix_fmt', 'yuv420p', '-hls_time', '1', '-hls_playlist_type', 'vod', join(good, '180p.m3u8')],
])
await writeFile(join(good, 'master.m3u8'), '#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=400000\n180p.m3u8\n')
const FILES = ['master.m3u8', '180p.m3u8', '180p0.ts', '180p1.ts', '180p2.ts']

/** A copy of the good stream, to be spoilt; returns its address. */
async function copy(name: string, spoil: (at: string) => Promise<unknown> = async () => {}): Promise<string> {
  await mkdir(join(folder, name))
  for (const file of FILES) await copyFile(join(good, file), join(folder, name, file))
  await spoil(join(folder, name))
  return `http://127.0.0.1:${port}/${name}/master.m3u8`
}

t.test('a whole stream is found good, and counted', async (t: Test) => {
  const { renditions } = await checkStream(await copy('whole'), 3)
  t.match(renditions, [{ segments: 3, seconds: 3 }])
  t.ok(Math.abs((renditions[0]?.decodedSeconds ?? 0) - 3) < 0.2)
})

for (const [name, spoil, message] of [
  ['a missing segment', (at) => rm(join(at, '180p2.ts')), /180p2\.ts answered 404/],
  ['an empty segment', (at) => truncate(join(at, '180p1.ts'), 0), /180p1\.ts is empty/],
  [
    'a segment of noise',
    (at) => writeFile(join(at, '180p1.ts'), Buffer.alloc(40_000, 'noise')),
    /ffmpeg could not play|lasts/,
  ],
  ['half a segment', (at) => truncate(join(at, '180p2.ts'), 5000), /ffmpeg could not play|lasts/],
  [
    'a playlist without an end',
    (at) => writeFile(join(at, '180p.m3u8'), '#EXTM3U\n#EXTINF:1,\n180p0.ts\n'),
    /has no EXT-X-ENDLIST/,
  ],
  ['a playlist of nothing', (at) => writeFile(join(at, '180p.m3u8'), '#EXTM3U\n#EXT-X-ENDLIST\n'), /lists no segment/],
  ['a master that is a page', (at) => writeFile(join(at, 'master.m3u8'), '<html>'), /is not a playlist/],
  ['a master of nothing', (at) => writeFile(join(at, 'master.m3u8'), '#EXTM3U\n'), /lists no rendition/],
] as [string, (at: string) => Promise<unknown>, RegExp][]) {
  t.test(`${name} is found`, async (t: Test) => {
    await t.rejects(checkStream(await copy(name.replaceAll(' ', '-'), spoil), 3), { message })
  })
}

t.test('a stream shorter than its source is found', async (t: Test) => {
  await t.rejects(checkStream(await copy('short'), 9), { message: 'The playlist lasts 3.00 s, the source 9.00 s' })
})

t.test('the length of a file that is no video is not guessed', async (t: Test) => {
  await writeFile(join(folder, 'text.mp4'), 'no video')
  await t.rejects(durationOf(join(folder, 'text.mp4')), { message: /is not a video/ })
})
