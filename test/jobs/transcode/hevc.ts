import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { probe } from '../../../jobs/ffmpeg/probe.ts'
import { makeHevc } from '../../../jobs/hls/make-hevc.ts'
import { scanHevc } from '../../../jobs/hls/scan-top.ts'
import { addHevc } from '../../../jobs/transcode/add-hevc.ts'
import { openFolderStore } from '../../../lib/runtime/object-store/folder.ts'
import { StoreError } from '../../../lib/runtime/object-store/object-store.ts'
import { closeServer, listenOnPort } from '../../../local/http-server.ts'
import { noBrowser, openBrowser } from '../../support/browser.ts'
import { clip, ffmpeg } from '../../support/clips.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { transcodeBench } from '../../support/transcode-run.ts'

/** Videos whose HEVC is served beside the renditions. What may be is decided in hls/hevc-copy.ts. */

const run = promisify(execFile)
const SPEC = { segmentSeconds: 2 }

/** The pictures of a stream, each as a digest with its time from the first one. */
async function pictures(path: string): Promise<string[]> {
  const args = ['-v', 'error', '-i', path, '-map', '0:v:0', '-fps_mode', 'passthrough', '-f', 'framemd5', '-']
  const { stdout, stderr } = await run('ffmpeg', args, { maxBuffer: 1 << 24 })
  if (stderr !== '') throw new Error(stderr)
  return stdout
    .split('\n')
    .filter((line) => /^\d/.test(line))
    .map((line) => line.split(',').at(-1)?.trim() ?? '')
}

const variants = (master: string) => [...master.matchAll(/CODECS="([^"]+)".*\n(\S+)/g)].map(([, ...found]) => found)

/** Which files a player asks for, and what it shows. */
async function playing(folder: string) {
  const asked: string[] = []
  const server = createServer((request, response) => {
    const name = (request.url ?? '/').slice(1)
    if (name === '') return void response.setHeader('content-type', 'text/html').end('<video id=v muted></video>')
    asked.push(name)
    readFile(join(folder, name)).then(
      (bytes) => response.end(bytes),
      () => response.writeHead(404).end(),
    )
  })
  const port = await listenOnPort(server, 0)
  const browser = await openBrowser()
  try {
    const page = await browser.newPage()
    await page.goto(`http://127.0.0.1:${port}/`)
    await page.addScriptTag({ path: createRequire(import.meta.url).resolve('hls.js/dist/hls.js') })
    const shown = await page.evaluate<{ seconds: number; height: number; levels: number; errors: string[] }>(`
      new Promise((done) => {
        const hls = new Hls()
        const errors = []
        hls.on(Hls.Events.ERROR, (_, { details, fatal }) => {
          // All is there before it plays: a decoder that is slow for a while is none of the stream's errors.
          if (fatal || details !== Hls.ErrorDetails.BUFFER_STALLED_ERROR) errors.push(details)
          if (fatal) end()
        })
        hls.on(Hls.Events.BUFFERED_TO_END, () => v.play())
        const end = () => done({ seconds: v.currentTime, height: v.videoHeight, levels: hls.levels.length, errors })
        v.onended = end
        v.playbackRate = 4
        hls.loadSource('/master-hevc.m3u8')
        hls.attachMedia(v)
      })`)
    return { ...shown, asked }
  } finally {
    await browser.close()
    await closeServer(server)
  }
}

t.test('the HEVC of an upload is served as it is, in a master playlist of its own', async (t) => {
  const bench = await transcodeBench(t)
  const path = await clip('phoneHevc')
  const input = await bench.inputOf(path)
  for (const place of ['job.hevc', 'job.uploaded'])
    t.equal((await bench.run([input], SPEC, { KEEPSAKE_FAILPOINT: place })).killedBy, 'SIGKILL', place)
  const { exit, output, result } = await bench.run([input], SPEC)
  t.equal(exit, 0, 'exits with 0', { output })
  t.match(result?.planReason, /^360p in one pass; .*; it is added as 480p-hevc$/)
  const { renditions } = (await bench.manifest()).hls
  t.match(renditions, [
    { name: '360p', codecs: /^avc1/ },
    { name: '480p-hevc', codecs: /^hvc1\.1\.6\.L90\.[0-9A-F.]+,mp4a\.40\.2$/, width: 640, height: 480, segments: 3 },
  ])
  const [h264, hevc] = renditions.map((r) => [r.codecs, r.playlist])
  t.strictSame(
    variants(await bench.text('master.m3u8')),
    [h264],
    'players that adapt to the network are not led astray',
  )
  t.strictSame(variants(await bench.text('master-hevc.m3u8')), [h264, hevc], 'H.264 comes first')
  t.match(
    await bench.text('480p-hevc.m3u8'),
    /VERSION:7\n[\s\S]*EXT-X-MAP:URI="480p-hevc_init.mp4"\n[\s\S]*_00002.m4s\n.*ENDLIST/,
  )

  const folder = await bench.checkout()
  const given = await pictures(path)
  t.equal(given.length, 50)
  t.strictSame(await pictures(join(folder, '480p-hevc.m3u8')), given, 'each picture is that of the upload')
  await t.resolves(run('grep', ['-q', 'x265', path]), 'the encoder said it')
  await t.rejects(run('grep', ['-rl', 'x265', folder]), { code: 1 }, 'nothing that the encoder said is left')
  for (const name of ['480p-hevc_init.mp4', '480p-hevc_00000.m4s'])
    t.notMatch(await readFile(join(folder, name), 'latin1'), /Acme|48\.13|2024/, name)

  await t.test('a browser that cannot decode it does not ask for it', { skip: noBrowser ?? false }, async (t) => {
    const { seconds, height, levels, errors, asked } = await playing(folder)
    t.match({ height, levels, errors }, { height: 360, levels: 1, errors: [] })
    t.ok(Math.abs(seconds - 5) < 0.1, `${seconds} s`)
    t.notOk(asked.some((name) => name.includes('hevc_') || name === '480p-hevc.m3u8'))
  })
})

t.test('what is not as its packets promised is not made', async (t) => {
  const { signal } = new AbortController()
  const sourcePath = await clip('phoneHevc')
  const source = await probe(sourcePath, signal)
  const found = await scanHevc(sourcePath, { source, segmentSeconds: 2, signal })
  if (typeof found === 'string') throw new Error(found)
  const folder = t.testdir()
  const made = (copied: typeof found) =>
    makeHevc({ source, sourcePath, copied, segmentSeconds: 2, folder, videos: [], signal })
  await t.resolves(made(found))
  await t.rejects(made({ ...found, keyframes: found.keyframes.slice(1) }), { message: /3 keyframes where 2 were due/ })
  await t.rejects(made({ ...found, frames: 51 }), { message: /50 frames over 50 where 51 were due/ })
})

async function made(path: string, folder: string) {
  const { signal } = new AbortController()
  const source = await probe(path, signal)
  const copied = await scanHevc(path, { source, segmentSeconds: 2, signal })
  if (typeof copied === 'string') throw new Error(copied)
  return makeHevc({ source, sourcePath: path, copied, segmentSeconds: 2, folder, videos: [], signal })
}

t.test('parameter sets before each keyframe go, where they are those of the initialization', async (t) => {
  const folder = t.testdir()
  const path = await clip('repeatedHevc')
  t.match(await made(path, folder), { frames: 90, codec: /^hvc1/ })
  t.strictSame(await pictures(join(folder, '360p-hevc.m3u8')), await pictures(path))
})

t.test('a stream that changes its parameter sets is not served: a player may begin behind the change', async (t) => {
  const folder = t.testdir()
  const at = (name: string) => join(folder, name)
  const streams = []
  for (const [name, ctu] of [
    ['one', 32],
    ['two', 16],
  ]) {
    const settings = `log-level=error:keyint=30:min-keyint=30:open-gop=0:bframes=0:ctu=${ctu}`
    await ffmpeg([
      ...['-f', 'lavfi', '-i', 'testsrc2=s=640x360:r=30:d=2', '-pix_fmt', 'yuv420p'],
      ...['-c:v', 'libx265', '-preset', 'ultrafast', '-x265-params', settings, at(`${name}.hevc`)],
    ])
    streams.push(await readFile(at(`${name}.hevc`)))
  }
  await writeFile(at('joined.hevc'), Buffer.concat(streams))
  // A bare stream has no times: one thirtieth of a second each.
  const times = ['-bsf:v', 'setts=pts=N*512:dts=N*512:time_base=1/15360', '-video_track_timescale', '15360']
  const joined = ['-framerate', '30', '-i', at('joined.hevc'), '-c', 'copy', '-tag:v', 'hev1', ...times]
  await ffmpeg([...joined, at('joined.mp4')])
  await t.rejects(made(at('joined.mp4'), at('.')), { message: /keyframes can be decoded/ })
})

t.test('what is left out leaves nothing of an earlier attempt', async (t) => {
  const { signal } = new AbortController()
  const sourcePath = await clip('repeatedHevc')
  const source = await probe(sourcePath, signal)
  const at = t.testdir({ objects: {}, work: {} })
  const folder = join(at, 'work')
  const store = openFolderStore({ folder: join(at, 'objects') })
  t.teardown(() => store.close())
  const prefix = 'org/o/media/m/v1/'
  const stays = ['360p.m3u8', '360p_00000.ts', 'master.m3u8']
  for (const name of [...stays, 'master-hevc.m3u8', '360p-hevc.m3u8', '360p-hevc_init.mp4', '360p-hevc_00000.m4s'])
    await store.put(prefix + name, 'x', { contentType: 'text/plain' })
  const publishRest = () => Promise.reject(new StoreError('Unavailable', 'away'))
  const add = (isWhole: boolean) =>
    addHevc({
      ...{ source, sourcePath, segmentSeconds: 2, folder, store, prefix, signal, log: quietLog() },
      ...{ publisher: { publishRest }, ladder: { videos: [], isWhole }, wallSeconds: 1 },
    })
  t.strictSame(await add(false), { fault: 'it is damaged' })
  const left: string[] = []
  for await (const { key } of store.list(prefix)) left.push(key.slice(prefix.length))
  t.strictSame(left.sort(), stays)
  t.strictSame(await add(true), { fault: 'it could not be made' }, 'a store that is away costs no video')
})

t.test('groups that are not closed are not served, and the video is converted', async (t) => {
  const bench = await transcodeBench(t)
  const { result } = await bench.run([await bench.inputOf(await clip('openHevc'))])
  t.match(result, { ok: true, planReason: /nor is it added as HEVC: some of its keyframes are not closed$/ })
  t.match((await bench.manifest()).hls.renditions, [{ name: '360p' }])
  await t.rejects(bench.text('master-hevc.m3u8'))
})
