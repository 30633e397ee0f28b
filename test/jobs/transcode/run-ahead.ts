import { execFile } from 'node:child_process'
import { copyFile, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import type { TranscodeJobSpec } from '../../../crds/transcode-job.ts'
import { rational } from '../../../jobs/ffmpeg/rational.ts'
import { ladderOf } from '../../../jobs/hls/ladder.ts'
import { type MediaPlaylist, parseMediaPlaylist } from '../../../jobs/hls/media-playlist.ts'
import { readSegment } from '../../../jobs/hls/read-segment.ts'
import { segmentLayout, timelineOf } from '../../../jobs/hls/timeline.ts'
import { openSegmentReader, verifyVideo } from '../../../jobs/hls/verify.ts'
import { EXIT } from '../../../lib/contract/job-result.ts'
import { clip } from '../../support/clips.ts'
import { eventually } from '../../support/eventually.ts'
import { pacedPath } from '../../support/paced-ffmpeg.ts'
import { progressReceiver, transcodeBench } from '../../support/transcode-run.ts'

/**
 * Videos whose smallest rendition runs ahead and is overtaken by one process for all. When that happens is decided in
 * hls/run-ahead.ts. Takes over 20 s: videos that are long enough for it are encoded again and again.
 */

const run = promisify(execFile)
type Bench = Awaited<ReturnType<typeof transcodeBench>>

const specOf = ({ segmentSeconds }: Pick<Clip, 'segmentSeconds'>): Partial<TranscodeJobSpec> => ({
  segmentSeconds,
  renditions: ['360p', '720p'],
})
const CLIPS = {
  longBeeps: { seconds: 120, segmentSeconds: 4, sides: [960, 720], streams: ['360p', '720p', 'audio'] },
  longStill: { seconds: 120, segmentSeconds: 6, sides: [720, 720], streams: ['360p', '720p'] },
} as const
type Clip = (typeof CLIPS)[keyof typeof CLIPS]
const FRAME_RATE = 10
const segmentsOf = ({ seconds, segmentSeconds }: Clip) => seconds / segmentSeconds

/**
 * As the costs of the passes are known, these times playing speed for the first are more than 3 times for one process. It
 * takes over when the third segment is there, and would still do so a second later, on a machine that others use.
 */
const quick = async (bench: Bench) => ({ PATH: await pacedPath(bench.folder, { ahead: 10, others: 16 }) })

/**
 * A machine that is held up for a second while it is decided shows a slower first pass than the paced one, and then nothing
 * takes over, as is right. Where the plan says so, `attempt` is made once more.
 */
async function overtaken<T extends { wentOn: boolean }>(attempt: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    const made = await attempt()
    if (tries === 4 || !made.wentOn) return made
  }
}
const saysSo = (planReason: string | undefined) => planReason?.startsWith('360p in a pass of its own') === true

const playlist = async (bench: Bench, name: string): Promise<MediaPlaylist> =>
  parseMediaPlaylist(await bench.text(`${name}.m3u8`).catch(() => '')) ?? { segments: [], ended: false }
const listed = async (bench: Bench, name: string) => (await playlist(bench, name)).segments.map((s) => s.uri)

/** What players of the one list would stumble over in the next one. */
function wrongIn(known: MediaPlaylist, { segments, ended }: MediaPlaylist, whole: number): string[] {
  const isOther = known.segments.some(({ uri }, k) => segments[k]?.uri !== uri)
  return [
    ...(isOther ? [`${segments.length} after ${known.segments.length}`] : []),
    ...(ended && segments.length < whole ? [`ends after ${segments.length}`] : []),
    ...(known.ended && !ended ? ['goes on after its end'] : []),
  ]
}

/** Looks at the playlists as players do, until all is done; what was wrong with them, and how long they were. */
async function watch(bench: Bench, clip: Clip, done: Promise<unknown>) {
  const wrong: string[] = []
  const before = new Map<string, MediaPlaylist>()
  const lengths = new Set<number>()
  let isRunning = true
  const end = () => {
    isRunning = false
  }
  done.then(end, end)
  async function look(name: string) {
    const now = await playlist(bench, name)
    wrong.push(...wrongIn(before.get(name) ?? now, now, segmentsOf(clip)).map((what) => `${name}: ${what}`))
    for (const { uri } of now.segments)
      if (!(await bench.store.head(bench.prefix + uri))) wrong.push(`${uri} is missing`)
    before.set(name, now)
    lengths.add(now.segments.length)
  }
  // Jobs write them four times a second.
  for (; isRunning; await sleep(100)) for (const name of clip.streams) await look(name)
  return { wrong, lengths }
}

/** A playlist and all that it names, decoded. */
async function decoding(playlist: string): Promise<string> {
  const args = ['-nostdin', '-v', 'error', '-xerror', '-i', playlist, '-map', '0', '-f', 'null', '-']
  return (await run('ffmpeg', args)).stderr
}

/** The number of frames of each rendition, whose segments all begin where they must. */
async function framesOf(folder: string, { sides: [width, height], segmentSeconds }: Clip): Promise<number[]> {
  const { signal } = new AbortController()
  const ladder = ladderOf({ width, height, frameRate: rational(FRAME_RATE) }, ['360p', '720p'])
  const timeline = timelineOf(ladder, segmentSeconds)
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
/** Segments of two encoders number their packets anew; what players need is that the next one begins a frame later. */
async function seamsOf(folder: string, uris: readonly string[]): Promise<{ gaps: number[]; frames: number }> {
  const read = await Promise.all(uris.map((uri) => readSegment(join(folder, uri))))
  const gaps = read.slice(1).map(({ first }, k) => Math.round(10 * (first - (read[k]?.last ?? 0)) * FRAME_RATE) / 10)
  return { gaps, frames: read.reduce((sum, { frames }) => sum + frames, 0) }
}
const allFrames = ({ seconds }: Clip) => [FRAME_RATE * seconds, FRAME_RATE * seconds]

async function hasEnded(t: Test, bench: Bench, { streams }: Clip): Promise<void> {
  for (const name of streams) t.match(await bench.text(`${name}.m3u8`), /#EXT-X-ENDLIST\n$/)
}

t.test('the plan of a first pass that goes on says how fast one process for all would be', async (t) => {
  const bench = await transcodeBench(t)
  const { exit, result, output } = await bench.run(
    [await bench.inputOf(await clip('bars13'))],
    specOf({ segmentSeconds: 4 }),
    {
      PATH: await pacedPath(bench.folder, { ahead: 2, others: 50 }),
    },
  )
  t.equal(exit, 0, 'exits with 0', { output })
  t.match(
    result?.planReason,
    /^360p in a pass of its own, so that it plays early \(one pass for all would run at an estimated 0\.\d+ times playing speed\); 720p/,
  )
})

t.test('a process for all that would be slower than playing does not take over', async (t) => {
  const bench = await transcodeBench(t)
  const job = bench.start([await bench.inputOf(await clip('longStill'))], specOf(CLIPS.longStill), {
    PATH: await pacedPath(bench.folder, { ahead: 3, others: 50 }),
  })
  // From here on it would save too little, also where it were faster.
  await eventually('seven segments', async () => (await listed(bench, '360p')).length >= 7, undefined, 50)
  t.strictSame(await listed(bench, '720p'), [], 'of the first pass')
  job.process.kill('SIGKILL')
  await job.finished
})

/** One that reorders frames. */
const PRESET = { X264_PRESET: 'superfast' }
t.test('death between the two processes leaves what plays, and another attempt may decide otherwise', async (t) => {
  const { longStill } = CLIPS
  const { bench, input, killedBy } = await overtaken(async () => {
    const bench = await transcodeBench(t)
    const input = await bench.inputOf(await clip('longStill'))
    const env = { ...(await quick(bench)), ...PRESET, KEEPSAKE_FAILPOINT: 'job.ran-ahead' }
    const { killedBy, result } = await bench.run([input], specOf(longStill), env)
    return { bench, input, killedBy, wentOn: saysSo(result?.planReason) }
  })
  t.equal(killedBy, 'SIGKILL')
  t.notOk((await bench.keys()).includes('manifest.json'))
  const early = await bench.checkout()
  const known = await listed(bench, '360p')
  t.ok(known.length >= 3 && known.length < segmentsOf(longStill) / 2, `${known.length} segments`)
  for (const uri of known) t.ok(await bench.store.head(bench.prefix + uri))
  t.match(await bench.text('master.m3u8'), /^360p\.m3u8$/m)

  // Its first pass is not paced, so of another quality: no file of the two attempts is the same.
  const { exit, output } = await bench.run([input], specOf(longStill), { ...PRESET, CORES: '1' })
  t.equal(exit, 0, 'exits with 0', { output })
  const folder = await bench.checkout()
  for (const uri of known) {
    t.notOk((await readFile(join(early, uri))).equals(await readFile(join(folder, uri))), `${uri} is another one`)
  }
  t.strictSame(await framesOf(folder, longStill), allFrames(longStill))
  // A player has segments of the first attempt, and goes on with those of the second.
  for (const uri of known) await copyFile(join(early, uri), join(folder, uri))
  const { gaps, frames } = await seamsOf(folder, await listed(bench, '360p'))
  t.equal(frames, allFrames(longStill)[0])
  t.strictSame(gaps, Array(segmentsOf(longStill) - 1).fill(1), 'no frame is missing or twice where they meet')
})

/** One attempt dies once another process has begun, and the next one is through. */
async function killedAndAgain(t: Test, bench: Bench) {
  const { reports, url } = await progressReceiver(t)
  const input = await bench.inputOf(await clip('longBeeps'))
  const [spec, env] = [specOf(CLIPS.longBeeps), await quick(bench)]
  const job = bench.start([input], spec, env)
  const hasBegun = async () => (await listed(bench, '720p')).length > 0
  await eventually('a segment of the other process', hasBegun, undefined, 50)
  job.process.kill('SIGKILL')
  t.equal((await job.finished).killedBy, 'SIGKILL')
  const { ended: isFirstWhole } = await playlist(bench, '360p')
  const ended = await bench.run([input], spec, { ...env, PROGRESS_URL: url, PROGRESS_TOKEN: 'x' })
  return { isFirstWhole, ended, reports }
}

t.test(
  'the smallest rendition runs ahead, and one process makes everything after it; death while that replaces what ran ahead loses nothing',
  async (t) => {
    const { longBeeps } = CLIPS
    const { bench, reports, seen, ended } = await overtaken(async () => {
      const bench = await transcodeBench(t)
      const both = killedAndAgain(t, bench)
      const [seen, { isFirstWhole, ended, reports }] = await Promise.all([watch(bench, longBeeps, both), both])
      return { bench, reports, seen, ended, wentOn: isFirstWhole || saysSo(ended.result?.planReason) }
    })
    const { wrong, lengths } = seen
    const { exit, output, result } = ended
    t.equal(exit, 0, 'exits with 0', { output })
    t.strictSame(wrong, [], 'playlists grow, what they list is there, and what players knew of the first attempt stays')
    t.ok(lengths.size > 5, `${lengths.size} lengths were seen`)
    const { planReason, hls } = await bench.manifest()
    t.match(
      planReason,
      /^360p ran ahead for \d+ s, so that it plays early; all renditions in one pass after it, at an estimated \d\.\d times/,
    )
    t.equal(result?.planReason, planReason)
    const ahead = Number(/for (\d+) s/.exec(planReason ?? '')?.[1])
    t.ok(ahead < longBeeps.seconds / 2, `${ahead} s of ${longBeeps.seconds}`)
    t.match(reports.find((r) => r.planReason)?.planReason, /^360p (in a pass of its own|ran ahead)/)
    t.match(reports.at(-1)?.planReason, /^360p ran ahead/)

    const folder = await bench.checkout()
    t.strictSame(await framesOf(folder, longBeeps), allFrames(longBeeps))
    t.equal(await decoding(join(folder, 'master.m3u8')), '')
    for (const { name, bytes, segments } of hls.renditions) {
      let stored = 0
      for await (const { size } of bench.store.list(`${bench.prefix}${name}_`)) stored += size
      t.strictSame([stored, segments], [bytes, segmentsOf(longBeeps)], `${name}: the store has what was verified`)
    }
    await hasEnded(t, bench, longBeeps)
    t.strictSame(await bench.leftovers(), [])
  },
)

t.test('a source that ends early is found out by the other process, and nothing of it is left', async (t) => {
  const { bench, ended, planReason } = await overtaken(async () => {
    const bench = await transcodeBench(t)
    const { reports, url } = await progressReceiver(t)
    const env = { ...(await quick(bench)), PROGRESS_URL: url, PROGRESS_TOKEN: 'x' }
    const input = await bench.inputOf(await clip('longStillCut'))
    const ended = await bench.run([input], specOf(CLIPS.longStill), env)
    const { planReason } = reports.at(-1) ?? {}
    return { bench, ended, planReason, wentOn: saysSo(planReason) }
  })
  const { exit, result, output } = ended
  t.match(result, { ok: false, outputs: [{ reason: 'Truncated' }] }, output)
  t.equal(exit, EXIT.inputBad)
  t.match(planReason, /^360p ran ahead/)
  t.strictSame(await bench.keys(), [])
})
