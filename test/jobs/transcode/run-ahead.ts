import { execFile } from 'node:child_process'
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import type { TranscodeJobSpec } from '../../../crds/transcode-job.ts'
import { rational } from '../../../jobs/ffmpeg/rational.ts'
import { ladderOf } from '../../../jobs/hls/ladder.ts'
import { type MediaPlaylist, parseMediaPlaylist } from '../../../jobs/hls/media-playlist.ts'
import { segmentLayout, timelineOf } from '../../../jobs/hls/timeline.ts'
import { openSegmentReader, verifyVideo } from '../../../jobs/hls/verify.ts'
import { EXIT } from '../../../lib/contract/job-result.ts'
import { clip } from '../../support/clips.ts'
import { eventually } from '../../support/eventually.ts'
import { pacedPath } from '../../support/paced-ffmpeg.ts'
import { progressReceiver, transcodeBench } from '../../support/transcode-run.ts'

/**
 * Videos whose smallest rendition runs ahead and is overtaken by one process for all. When that happens is decided in
 * hls/run-ahead.ts. Takes over 20 s: one video is long enough for it, and is encoded again and again.
 */

const run = promisify(execFile)
type Bench = Awaited<ReturnType<typeof transcodeBench>>

const SEGMENT_SECONDS = 4
const SPEC: Partial<TranscodeJobSpec> = { segmentSeconds: SEGMENT_SECONDS, renditions: ['360p', '720p'] }
const SECONDS = 120
const SEGMENTS = SECONDS / SEGMENT_SECONDS
const STREAMS = ['360p', '720p', 'audio']

/** As the costs of the passes are known, 12 times playing speed for the first is more than 4 times for one process. */
const quick = async (bench: Bench) => ({ PATH: await pacedPath(bench.folder, { ahead: 12, others: 16 }) })

const playlist = async (bench: Bench, name: string): Promise<MediaPlaylist> =>
  parseMediaPlaylist(await bench.text(`${name}.m3u8`).catch(() => '')) ?? { segments: [], ended: false }
const listed = async (bench: Bench, name: string) => (await playlist(bench, name)).segments.map((s) => s.uri)

/** What players of the one list would stumble over in the next one. */
function wrongIn(known: MediaPlaylist, { segments, ended }: MediaPlaylist): string[] {
  const isOther = known.segments.some(({ uri }, k) => segments[k]?.uri !== uri)
  return [
    ...(isOther ? [`${segments.length} after ${known.segments.length}`] : []),
    ...(ended && segments.length < SEGMENTS ? [`ends after ${segments.length}`] : []),
    ...(known.ended && !ended ? ['goes on after its end'] : []),
  ]
}

/** Looks at the playlists as players do, until the job ends; what was wrong with them, and how long they were. */
async function watch(bench: Bench, finished: Promise<unknown>) {
  const wrong: string[] = []
  const before = new Map<string, MediaPlaylist>()
  const lengths = new Set<number>()
  let isRunning = true
  void finished.then(() => (isRunning = false))
  async function look(name: string) {
    const now = await playlist(bench, name)
    wrong.push(...wrongIn(before.get(name) ?? now, now).map((what) => `${name}: ${what}`))
    for (const { uri } of now.segments)
      if (!(await bench.store.head(bench.prefix + uri))) wrong.push(`${uri} is missing`)
    before.set(name, now)
    lengths.add(now.segments.length)
  }
  while (isRunning) for (const name of STREAMS) await look(name)
  return { wrong, lengths }
}

/** All files of the stream, decoded. */
async function decoding(folder: string): Promise<string> {
  const args = ['-nostdin', '-v', 'error', '-xerror', '-i', join(folder, 'master.m3u8'), '-map', '0', '-f', 'null', '-']
  return (await run('ffmpeg', args)).stderr
}

const ladder = ladderOf({ width: 960, height: 720, frameRate: rational(10) }, ['360p', '720p'])
const timeline = timelineOf(ladder, SEGMENT_SECONDS)
/** The number of frames of each rendition, whose segments all begin where they must. */
async function framesOf(folder: string): Promise<number[]> {
  const { signal } = new AbortController()
  const made = ladder.map((r) =>
    verifyVideo(
      folder,
      r,
      (frames) => segmentLayout(timeline, r.frameRate, frames),
      openSegmentReader(folder, signal).readAll,
    ),
  )
  return (await Promise.all(made)).map((video) => video.frames)
}

t.test('the smallest rendition runs ahead, and one process makes everything after it', async (t) => {
  const bench = await transcodeBench(t)
  const receiver = await progressReceiver(t)
  const progress = { PROGRESS_URL: receiver.url, PROGRESS_TOKEN: 'x' }
  const job = bench.start([await bench.inputOf(await clip('longSparse'))], SPEC, {
    ...(await quick(bench)),
    ...progress,
  })
  const [{ wrong, lengths }, { exit, output, result }] = await Promise.all([watch(bench, job.finished), job.finished])
  t.equal(exit, 0, 'exits with 0', { output })
  t.strictSame(wrong, [], 'playlists grow, and what they list is there')
  t.ok(lengths.size > 5, `${lengths.size} lengths were seen`)
  const { planReason, hls } = await bench.manifest()
  t.match(
    planReason,
    /^360p ran ahead for \d+ s, so that it plays early; all renditions in one pass after it, at an estimated \d\.\d times/,
  )
  t.equal(result?.planReason, planReason)
  const ahead = Number(/for (\d+) s/.exec(planReason ?? '')?.[1])
  t.ok(ahead < SECONDS / 2, `${ahead} s of ${SECONDS}`)
  const { reports } = receiver
  t.match(reports.find((r) => r.planReason)?.planReason, /^360p (in a pass of its own|ran ahead)/)
  t.match(reports.at(-1)?.planReason, /^360p ran ahead/)

  const folder = await bench.checkout()
  t.strictSame(await framesOf(folder), [10 * SECONDS, 10 * SECONDS])
  t.equal(await decoding(folder), '')
  for (const { name, bytes, segments } of hls.renditions) {
    let stored = 0
    for await (const { size } of bench.store.list(`${bench.prefix}${name}_`)) stored += size
    t.strictSame([stored, segments], [bytes, SEGMENTS], `${name}: the store has what was verified`)
  }
  for (const name of STREAMS) t.match(await bench.text(`${name}.m3u8`), /#EXT-X-ENDLIST\n$/)
  t.strictSame(await bench.leftovers(), [])
})

t.test('the plan of a first pass that goes on says how fast one process for all would be', async (t) => {
  const bench = await transcodeBench(t)
  const { exit, result, output } = await bench.run([await bench.inputOf(await clip('sparse'))], SPEC, {
    PATH: await pacedPath(bench.folder, { ahead: 2.5, others: 50 }),
  })
  t.equal(exit, 0, 'exits with 0', { output })
  t.match(
    result?.planReason,
    /^360p in a pass of its own, so that it plays early \(one pass for all would run at an estimated 0\.\d+ times playing speed\); 720p/,
  )
})

t.test('a process for all that would be slower than playing does not take over', async (t) => {
  const bench = await transcodeBench(t)
  const job = bench.start([await bench.inputOf(await clip('longSparse'))], SPEC, {
    PATH: await pacedPath(bench.folder, { ahead: 2.5, others: 50 }),
  })
  // From here on it would save too little, also where it were faster.
  await eventually('six segments', async () => (await listed(bench, '360p')).length >= 6)
  t.strictSame(await listed(bench, '720p'), [], 'of the first pass')
  job.process.kill('SIGKILL')
  await job.finished
})

t.test('death between the two processes leaves what plays, and another attempt may decide otherwise', async (t) => {
  const bench = await transcodeBench(t)
  const input = await bench.inputOf(await clip('longSparse'))
  // The same profile from other settings: no file of the two attempts is the same.
  const env = { ...(await quick(bench)), X264_PRESET: 'superfast' }
  const { killedBy } = await bench.run([input], SPEC, { ...env, KEEPSAKE_FAILPOINT: 'job.ran-ahead' })
  t.equal(killedBy, 'SIGKILL')
  t.notOk((await bench.keys()).includes('manifest.json'))
  const early = await bench.checkout()
  const known = await listed(bench, '360p')
  t.ok(known.length >= 3 && known.length < SEGMENTS / 2, `${known.length} segments`)
  for (const uri of known) t.ok(await bench.store.head(bench.prefix + uri))
  t.match(await bench.text('master.m3u8'), /^360p\.m3u8$/m)

  const other = { PATH: await pacedPath(bench.folder, { ahead: 60, others: 60 }), X264_PRESET: 'veryfast' }
  const { exit, output } = await bench.run([input], SPEC, other)
  t.equal(exit, 0, 'exits with 0', { output })
  const folder = await bench.checkout()
  t.strictSame(await framesOf(folder), [10 * SECONDS, 10 * SECONDS])
  // A player has segments of the first attempt, and goes on with those of the second.
  for (const uri of known) await copyFile(join(early, uri), join(folder, uri))
  t.strictSame(await framesOf(folder), [10 * SECONDS, 10 * SECONDS], 'no frame is missing or twice where they meet')
})

t.test('death while the other process replaces what ran ahead loses nothing', async (t) => {
  const bench = await transcodeBench(t)
  const input = await bench.inputOf(await clip('longSparse'))
  const env = await quick(bench)
  const job = bench.start([input], SPEC, env)
  await eventually('a segment of the other process', async () => (await listed(bench, '720p')).length > 0)
  job.process.kill('SIGKILL')
  await job.finished
  for (const name of STREAMS)
    for (const uri of await listed(bench, name)) t.ok(await bench.store.head(bench.prefix + uri), uri)
  const again = bench.start([input], SPEC, env)
  const [{ wrong }, { exit, output, result }] = await Promise.all([watch(bench, again.finished), again.finished])
  t.equal(exit, 0, 'exits with 0', { output })
  t.strictSame(wrong, [], 'what players knew of the first attempt stays listed')
  t.match(result?.planReason, /^360p ran ahead/)
  t.strictSame(await framesOf(await bench.checkout()), [10 * SECONDS, 10 * SECONDS])
})

t.test('a source that ends early is found out by the other process, and nothing of it is left', async (t) => {
  const bench = await transcodeBench(t)
  const receiver = await progressReceiver(t)
  const progress = { PROGRESS_URL: receiver.url, PROGRESS_TOKEN: 'x' }
  const input = await bench.inputOf(await clip('longTruncated'))
  const { exit, result, output } = await bench.run([input], SPEC, { ...(await quick(bench)), ...progress })
  t.match(result, { ok: false, outputs: [{ reason: 'Truncated' }] }, output)
  t.equal(exit, EXIT.inputBad)
  t.match(receiver.reports.at(-1)?.planReason, /^360p ran ahead/)
  t.strictSame(await bench.keys(), [])
})
