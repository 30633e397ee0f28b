import { execFile } from 'node:child_process'
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { probeWithPackets } from '../../../jobs/ffmpeg/probe.ts'
import { ladderOf } from '../../../jobs/hls/ladder.ts'
import { runLadder } from '../../../jobs/hls/ladder-run.ts'
import { parseMediaPlaylist } from '../../../jobs/hls/media-playlist.ts'
import { openPublisher } from '../../../jobs/hls/publisher.ts'
import { scanTop } from '../../../jobs/hls/scan-top.ts'
import { EXIT } from '../../../lib/contract/job-result.ts'
import { openFolderStore } from '../../../lib/runtime/object-store/folder.ts'
import { clip, clipOf } from '../../support/clips.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { programPath } from '../../support/services/process.ts'
import { transcodeBench } from '../../support/transcode-run.ts'

/** Videos whose own stream is the largest rendition. What may be copied is decided in hls/copied-top.ts. */

const run = promisify(execFile)
type Bench = Awaited<ReturnType<typeof transcodeBench>>
const SPEC = { segmentSeconds: 2 }

async function packetsOf(path: string): Promise<{ first: number; sizes: number[] }> {
  const args = [
    '-v',
    'error',
    '-select_streams',
    'v:0',
    '-show_entries',
    'packet=pts_time,size',
    '-of',
    'csv=p=0',
    path,
  ]
  const { stdout } = await run('ffprobe', args, { maxBuffer: 1 << 24 })
  const packets = stdout
    .split('\n')
    .filter((line) => /^\d/.test(line))
    .map((line) => line.split(',').map(Number))
  return { first: Math.min(...packets.map(([pts = 0]) => pts)), sizes: packets.map(([, size = 0]) => size) }
}

async function listed(bench: Bench, name: string): Promise<{ seconds: number[]; target: number }> {
  const text = await bench.text(`${name}.m3u8`)
  const seconds = parseMediaPlaylist(text)?.segments.map((s) => Number(s.seconds.toFixed(3))) ?? []
  return { seconds, target: Number(/TARGETDURATION:(\d+)/.exec(text)?.[1]) }
}

/** What ffmpeg has to say of all renditions while it decodes them. */
async function decoding(folder: string): Promise<string> {
  const input = ['-v', 'error', '-threads', '1', '-i', join(folder, 'master.m3u8')]
  return (await run('ffmpeg', [...input, '-map', '0:v', '-f', 'null', '-'])).stderr
}

t.test('a compressed video is its own largest rendition, also where two attempts were killed before', async (t) => {
  const bench = await transcodeBench(t)
  const path = await clip('messagedShort')
  const input = await bench.inputOf(path)
  for (const place of ['job.playable', 'job.uploaded'])
    t.equal((await bench.run([input], SPEC, { KEEPSAKE_FAILPOINT: place })).killedBy, 'SIGKILL', place)
  const { exit, output, result } = await bench.run([input], SPEC)
  t.equal(exit, 0, 'exits with 0', { output })
  t.equal(result?.planReason, '720p is the stream of the upload; 360p in one pass after it')
  const { renditions } = (await bench.manifest()).hls
  t.strictSame(
    renditions.map((r) => [r.name, r.segments]),
    [
      ['360p', 2],
      ['720p', 2],
    ],
  )
  t.match(renditions[1]?.codecs, /^avc1\.64/, 'the encoder of this test writes no High profile')
  for (const name of ['360p', '720p']) {
    t.strictSame(await listed(bench, name), { seconds: [2.6, 2.8], target: 3 }, 'the others are cut where it is')
    t.match(await bench.text(`${name}.m3u8`), new RegExp(`^${name}c_00001.ts$`, 'm'))
  }

  const folder = await bench.checkout()
  const [source, top, small] = [
    await packetsOf(path),
    await packetsOf(join(folder, '720p.m3u8')),
    await packetsOf(join(folder, '360p.m3u8')),
  ]
  t.equal(top.sizes.length, source.sizes.length, 'no frame is missing')
  t.equal(small.sizes.length, source.sizes.length)
  t.equal(top.first, small.first, 'the renditions begin at the same moment')
  await t.resolves(run('grep', ['-q', 'canary', path]), 'the encoder said it')
  await t.rejects(run('grep', ['-rl', 'canary', folder]), { code: 1 }, 'nothing that the encoder said is left')
  t.equal(await decoding(folder), '', 'all renditions can be decoded')
})

t.test('a copy that is not what its packets promised is replaced by what the encoder makes', async (t) => {
  const { signal } = new AbortController()
  // The pictures are small: their contents do not matter here.
  const sourcePath = await clip('messagedSmall')
  const { source, packets } = await probeWithPackets(sourcePath, signal)
  const ladder = ladderOf(source, ['90p', '180p'])
  const copied = await scanTop(sourcePath, { source, ladder, segmentSeconds: 6, signal })
  if (typeof copied === 'string') throw new Error(copied)
  if (!packets) throw new Error('they are few')
  const listed = await scanTop(sourcePath, { source, ladder, segmentSeconds: 6, packets, signal })
  t.strictSame(listed, copied, 'whichever process lists the packets')
  const cut = await clipOf(['-ss', '1.3', '-i', sourcePath, '-c', 'copy'])
  const hidden = await probeWithPackets(cut, signal)
  for (const packets of [hidden.packets, undefined])
    t.match(await scanTop(cut, { source: hidden.source, ladder, segmentSeconds: 6, packets, signal }), /edit list/)
  t.ok(hidden.packets)
  const place = t.testdir({ hls: {}, store: {} })
  const folder = join(place, 'hls')
  const store = openFolderStore({ folder: join(place, 'store') })
  const { targetSeconds } = copied
  const publisher = openPublisher({ store, prefix: 'p/', folder, targetSeconds, signal })
  const { videos, planReason } = await runLadder({
    ...{ source, sourcePath, ladder, segmentSeconds: 6, scratch: place, folder, publisher, signal, log: quietLog() },
    ...{
      accelerator: 'cpu',
      cores: 2,
      preset: 'ultrafast',
      onProgress: () => {},
      onPlayable: () => {},
      onPlanned: () => {},
    },
    copied: { ...copied, keyframes: copied.keyframes.slice(0, -1) },
  })
  const stored = new Set<string>()
  for await (const { key } of store.list('p/')) stored.add(key)
  t.notOk(
    [...stored].some((key) => key.includes('c_')),
    'players have met nothing of the copy',
  )
  t.match(
    videos.map(({ rendition, codec }) => [rendition.name, codec]),
    [['90p'], ['180p', /^avc1\.42/]],
  )
  t.match(planReason, /^90p in a pass of its own.*not copied: it is not what its packets promised$/)
  for (const name of ['90p', '180p'])
    t.strictSame(
      publisher.published(name).map((s) => Number(s.seconds.toFixed(3))),
      [6, 6, 1],
      name,
    )
})

/** The upload with some bytes of one frame in the middle of it changed, as a bad card does. */
async function damaged(path: string, place: string): Promise<string> {
  const args = [
    '-v',
    'error',
    '-select_streams',
    'v:0',
    '-show_entries',
    'packet=pos,size,flags',
    '-of',
    'csv=p=0',
    path,
  ]
  const { stdout } = await run('ffprobe', args, { maxBuffer: 1 << 24 })
  const packets = stdout.split('\n').map((line) => line.split(','))
  const at = packets.findIndex(([size, , flags = ''], n) => n > 30 && Number(size) > 2000 && !flags.startsWith('K'))
  const [size, position] = packets[at]?.map(Number) ?? []
  if (!size || !position) throw new Error('no frame of that size')
  const bytes = await readFile(path)
  bytes.fill(0x5a, position + Math.floor(size / 4), position + Math.floor(size / 2))
  const copy = join(place, 'damaged.mp4')
  await writeFile(copy, bytes)
  return copy
}

t.test('a stream with a damaged frame is not served as it is', async (t) => {
  const bench = await transcodeBench(t)
  const input = await bench.inputOf(await damaged(await clip('messagedShort'), t.testdir()))
  const { result } = await bench.run([input], SPEC)
  t.match(result, { ok: true, planReason: /^360p, 720p in one pass; .*it is not what its packets promised$/ })
  t.equal(await decoding(await bench.checkout()), '', 'what is served can be decoded')
})

/** An ffmpeg that makes the sound beside a copy in this way; `$real` is the one that is installed. */
async function otherSound(folder: string, script: string): Promise<string> {
  const bin = await mkdtemp(join(folder, 'ffmpeg-'))
  const real = await programPath('ffmpeg')
  const text = `#!/bin/sh
real=${real}
store=${join(folder, 'store')}
case "$*" in
  *v:0,name:*) ;;
  *a:0,name:*) ${script} ;;
esac
exec $real "$@"
`
  await writeFile(join(bin, 'ffmpeg'), text, { mode: 0o755 })
  return `${bin}${delimiter}${process.env['PATH'] ?? ''}`
}

t.test('a sound that fails beside a copy ends the attempt; the next one goes on with what players have', async (t) => {
  const bench = await transcodeBench(t)
  const input = await bench.inputOf(await clip('messagedShort'))
  const table: [string, string][] = [
    ['$real "$@"; until [ -n "$(find $store -name "audio.m3u8*")" ]; do sleep 0.1; done; exit 1', 'EncodeFailed'],
    ['for a; do shift; [ "$before" = -t ] && a=3; before=$a; set -- "$@" "$a"; done', 'VerificationFailed'],
  ]
  const lists = new Set<string>()
  for (const [script, reason] of table) {
    const PATH = await otherSound(bench.folder, script)
    const { result, output } = await bench.run([input], SPEC, { PATH })
    t.match(result, { ok: false, outputs: [{ reason }] }, output)
    const others = (await bench.keys()).filter((key) => /^(360p|720p_|manifest)/.test(key))
    t.strictSame(others, [], 'nothing is encoded in place of the copy')
    lists.add(await bench.text('720p.m3u8'))
    t.match(await bench.text('audio.m3u8'), /^audioc_00000\.ts$/m, 'players have heard its beginning')
    t.notMatch(await bench.text('audio.m3u8'), 'ENDLIST')
  }
  const { result } = await bench.run([input], SPEC)
  t.match(result, { ok: true, planReason: /^720p is the stream of the upload/ })
  lists.add(await bench.text('720p.m3u8'))
  t.equal(lists.size, 1, 'the list of the copy stays as it was')
  t.match([...lists][0], /^720pc_00001\.ts\n#EXT-X-ENDLIST$/m)
})

t.test('a sound that cannot be decoded beside a copy refuses the upload, and nothing of it is left', async (t) => {
  const bench = await transcodeBench(t)
  const input = await bench.inputOf(await clip('messagedShort'))
  const script = '$real "$@"; echo "[error] Invalid data found when processing input" >&2; exit 1'
  const { exit, result, output } = await bench.run([input], SPEC, { PATH: await otherSound(bench.folder, script) })
  t.match({ exit, result }, { exit: EXIT.inputBad, result: { outputs: [{ reason: 'CorruptInput' }] } }, output)
  t.strictSame(await bench.keys(), [])
})
