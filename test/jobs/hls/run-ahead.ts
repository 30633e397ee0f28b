import t from 'tap'
import type { ProbedSource } from '../../../jobs/ffmpeg/probe.ts'
import { rational } from '../../../jobs/ffmpeg/rational.ts'
import type { CopiedTop } from '../../../jobs/hls/copied-top.ts'
import { canBeWatched, watchFirstPass } from '../../../jobs/hls/first-pass.ts'
import { ladderOf } from '../../../jobs/hls/ladder.ts'
import { passCosts, planPasses, planReasonOf, planTakeover } from '../../../jobs/hls/pass-plan.ts'
import type { Publisher } from '../../../jobs/hls/publisher.ts'
import { mayStop, openSpeedometer, type Progressed, type RunAhead, speedOfAll } from '../../../jobs/hls/run-ahead.ts'

const ladderFor = (width: number, height: number) =>
  ladderOf({ width, height, frameRate: rational(30) }, ['360p', '720p', '1080p'])
const costsOf = (width: number, height: number) =>
  passCosts(ladderFor(width, height), { width, height, hasAudio: true })
const full = costsOf(1920, 1080)
const half = costsOf(1280, 720)

t.test('the costs are those that were measured', async (t) => {
  const { ahead, others, all } = full
  t.ok(Math.abs(ahead / all - 0.25) < 0.03, `1080p: ${ahead / all}; 0.21 to 0.27 of CPU seconds`)
  t.ok(Math.abs(half.ahead / half.all - 0.39) < 0.03, `720p: ${half.ahead / half.all}`)
  t.ok(ahead + others > all, 'two passes decode twice')
})

/** A first pass of this speed whose segments cover so much, each published when it was made, the first one first. */
function after(covered: number, speed: number, run: RunAhead): Progressed {
  return { covered, made: covered + 1, speed, playableFor: (covered - run.segmentSeconds) / speed }
}

/** How far it runs ahead; undefined: to the end, as the others are made after it. */
function distance(run: RunAhead, speed: number): number | undefined {
  for (let covered = run.segmentSeconds; covered < run.seconds; covered += run.segmentSeconds)
    if (mayStop(run, after(covered, speed, run))) return covered
  return undefined
}

for (const [what, seconds, costs, speedOfOne, want] of [
  ['a short clip is not worth it', 20, half, 4, undefined],
  ['a minute is not worth it either', 60, half, 4, undefined],
  ['ninety seconds on a quick machine', 90, half, 4, 18],
  ['ninety seconds on one that is half as quick', 90, half, 2, undefined],
  ['two minutes on the same', 120, half, 2, 24],
  ['a film', 7200, half, 2, 24],
  ['a film whose list would stand still for a little longer than three segments', 7200, half, 1.75, undefined],
  ['a film, a little faster than it plays', 7200, half, 1.5, undefined],
  ['a film of 1080p', 7200, full, 2, 24],
  ['the same, a little slower', 7200, full, 1.75, undefined],
  ['a film, so little faster that the first pass would fall behind', 7200, half, 1.2, undefined],
  ['a film as fast as it plays', 7200, half, 1, undefined],
  ['a film at half the speed', 7200, half, 0.5, undefined],
  ['a minute of 1080p', 60, full, 3, 18],
  ['a minute of 1080p that takes longer than it plays', 60, full, 0.4, undefined],
  ['a film that is made at once', 7200, half, 100, 18],
] as const)
  t.test(what, async (t) => {
    const run = { seconds, segmentSeconds: 6, frameRate: 30, costs }
    t.equal(distance(run, (speedOfOne * costs.all) / costs.ahead / 0.8), want)
  })

/** When a process for all that began at 0 has made so much: after a start of a second and with a lookahead of 40 frames. */
const madeAt = (run: RunAhead, speed: number, seconds: number) =>
  1 + (40 / run.frameRate + seconds) / speedOfAll(run, speed)

/** The first segment that is not there when a viewer needs it who began with the first one. */
function missing(run: RunAhead, speed: number, covered: number): number | undefined {
  const startsAt = (covered - run.segmentSeconds) / speed
  for (let from = covered; from < run.seconds; from += run.segmentSeconds)
    if (startsAt + madeAt(run, speed, Math.min(run.seconds, from + run.segmentSeconds)) > from) return from
  return undefined
}

const runs: RunAhead[] = [2, 6, 10].flatMap((segmentSeconds) =>
  [30, 61, 600, 7200].flatMap((seconds) =>
    [5, 30].flatMap((frameRate) => [full, half].map((costs) => ({ seconds, segmentSeconds, frameRate, costs }))),
  ),
)

t.test('a viewer who starts at the first moment never waits, and no list stands still for long', async (t) => {
  let stopped = 0
  for (const run of runs)
    for (let speed = 1; speed < 60; speed *= 1.1) {
      const covered = distance(run, speed)
      if (covered === undefined) continue
      stopped += 1
      const what = `${JSON.stringify(run)} at ${speed}`
      t.equal(missing(run, speed, covered), undefined, what)
      const gap = madeAt(run, speed, covered + run.segmentSeconds)
      t.ok(gap <= 3 * run.segmentSeconds, `${what}: ${gap} s`)
    }
  t.ok(stopped > 200, `${stopped} cases`)
})

t.test('what is not known stops nothing', async (t) => {
  const run = { seconds: 600, segmentSeconds: 6, frameRate: 30, costs: half }
  const good = after(60, 20, run)
  t.ok(mayStop(run, good))
  for (const strange of [0, -1, Number.NaN, undefined])
    t.notOk(mayStop(run, { ...good, speed: strange }), `speed ${strange}`)
  for (const strange of [Number.NaN, undefined])
    t.notOk(mayStop(run, { ...good, playableFor: strange }), `since ${strange}`)
  for (const strange of [0, Number.NaN]) t.notOk(mayStop(run, { ...good, covered: strange }), `covered ${strange}`)
  t.notOk(mayStop(run, { ...good, made: Number.NaN }))
  t.notOk(mayStop(run, { ...good, made: 590 }), 'the first pass is nearly done')
  for (const seconds of [0, 0.01, Number.NaN]) t.notOk(mayStop({ ...run, seconds }, good), `${seconds} s`)
  for (const frameRate of [0, Number.NaN]) t.notOk(mayStop({ ...run, frameRate }, good), `${frameRate} frames a second`)
  t.notOk(mayStop({ ...run, costs: { ahead: 0, others: 0, all: 0 } }, good))
  t.notOk(mayStop(run, { ...good, playableFor: 60 }), 'a viewer is where the first pass is')
})

const read = (samples: [at: number, made: number][]) => {
  const meter = openSpeedometer()
  for (const [at, made] of samples) meter.add(at, made)
  return meter.speed()
}
t.test('speed is measured without the start, over about a second or more', async (t) => {
  t.equal(read([]), undefined)
  t.equal(read([[9, 0]]), undefined)
  t.equal(
    read([
      [0, 0],
      [9, 0],
      [10, 4],
      [10.8, 8],
    ]),
    undefined,
  )
  t.equal(
    read([
      [0, 0],
      [9, 0],
      [10, 4],
      [12, 8],
    ]),
    2,
  )
})
t.test('speed is what it was lately, where that is less', async (t) => {
  const steady = Array.from({ length: 20 }, (_, i): [number, number] => [1 + i, 10 * (1 + i)])
  t.equal(read(steady), 10)
  t.equal(read([...steady, [21, 201], [22, 202], [23, 203], [24, 204]]), 1)
  const quicker = read([...steady, [21, 300], [22, 400], [23, 500]]) ?? 0
  t.ok(quicker > 10 && quicker < 25, `${quicker}: a quick end does not make up for a slow beginning`)
  t.equal(read([...steady, [40, 210]]), 200 / 39, 'after a pause')
})
t.test('clocks and frames that run backwards, or are no numbers, do not count', async (t) => {
  t.equal(
    read([
      [1, 10],
      [2, 20],
      [1.5, 30],
      [3, 15],
      [Number.NaN, 40],
      [4, Number.NaN],
      [3, 30],
    ]),
    10,
  )
})

/** A first pass of 720p for two minutes, on a clock of its own; `cover` publishes so much of it. */
function watched() {
  const source = { width: 1280, height: 720, videoSeconds: 120, audioSeconds: 120, audio: {} } as ProbedSource
  const [plan] = planPasses(ladderFor(1280, 720), { ...source, seconds: 120, hasAudio: true })
  if (!plan) throw new Error('no plan')
  let at = 0
  let covered: Record<string, number> = {}
  const published = (name: string) => [{ uri: '', bytes: 1, seconds: covered[name] ?? 0 }]
  const ladder = {
    source,
    ladder: ladderFor(1280, 720),
    segmentSeconds: 6,
    publisher: { published } as unknown as Publisher,
  }
  const pass = watchFirstPass(ladder, plan, () => at * 1000)
  return {
    ...pass,
    after(seconds: number, made: number, video: number, audio = video) {
      at = seconds
      pass.progressed(30 * made)
      covered = { '360p': video, audio }
      if (video > 0) pass.playable()
      return pass.isEnough()
    },
  }
}

t.test('a first pass is enough when its segments are, those of the sound too', async (t) => {
  const { after, shown } = watched()
  t.strictSame(shown(false), { ranAhead: undefined, speedOfAll: undefined })
  t.notOk(after(0.5, 5, 0))
  t.notOk(after(1, 10, 6), 'it is not known how fast it is')
  t.notOk(after(1.5, 15, 12))
  t.notOk(after(2.5, 25, 24, 6), 'the sound is not there')
  t.ok(after(2.6, 26, 24))
  t.equal(shown(true).ranAhead, 24)
  t.equal(shown(false).ranAhead, undefined, 'it was through before it could be stopped')
  t.ok(Math.abs((shown(true).speedOfAll ?? 0) - 10 * 0.39 * 0.8) < 0.05)
})

t.test('a first pass that is through is not stopped, though its last report is old', async (t) => {
  const { after } = watched()
  t.notOk(after(0.5, 5, 0))
  t.notOk(after(1, 10, 6))
  t.notOk(after(2, 20, 120))
})

t.test('only a first pass that shows what one process would cost is watched', async (t) => {
  const source = { hdr: null } as ProbedSource
  const plans = planPasses(ladderFor(1280, 720), { width: 1280, height: 720, seconds: 60, hasAudio: true })
  const [first, second] = plans
  if (!first || !second) throw new Error('no plan')
  t.ok(canBeWatched({ accelerator: 'cpu', source }, plans))
  t.notOk(canBeWatched({ accelerator: 'gpu', source }, plans))
  t.notOk(canBeWatched({ accelerator: 'cpu', source: { ...source, hdr: 'smpte2084' } }, plans))
  t.notOk(canBeWatched({ accelerator: 'cpu', source }, [first]))
  const copied = { ...first, copied: {} as CopiedTop }
  t.notOk(canBeWatched({ accelerator: 'cpu', source }, [copied, second]))
  const short = planPasses(ladderFor(1280, 720), { width: 1280, height: 720, seconds: 11, hasAudio: true })
  t.notOk(canBeWatched({ accelerator: 'cpu', source }, short))
})

t.test('the plan says what was decided, and why', async (t) => {
  const source = { width: 1280, height: 720, seconds: 60, hasAudio: true }
  const plans = planPasses(ladderFor(1280, 720), source)
  const why = 'the stream of the upload is not copied: it has 71.3 Mbit/s'
  for (const [shown, want] of [
    [{}, '360p in a pass of its own, so that it plays early; 720p in one pass after it'],
    [
      { speedOfAll: 0.394 },
      '360p in a pass of its own, so that it plays early (one pass for all would run at an estimated 0.39 times playing speed); 720p in one pass after it',
    ],
    [
      { speedOfAll: 3.13, ranAhead: 18.02 },
      '360p ran ahead for 18 s, so that it plays early; all renditions in one pass after it, at an estimated 3.1 times playing speed',
    ],
    [{ ranAhead: 18.02 }, '360p ran ahead for 18 s, so that it plays early; all renditions in one pass after it'],
    [{ chunks: 4 }, '360p in a pass of its own, so that it plays early; 720p in 4 chunks, which several pods share'],
    [
      { chunks: 4, sharedFrom: 36.04 },
      '360p in a pass of its own for 36 s, so that it plays early; 720p, and the rest of 360p, in 4 chunks, which several pods share',
    ],
  ] as const)
    t.equal(planReasonOf(plans, 'it has 71.3 Mbit/s', shown), `${want}; ${why}`)
  const long = planReasonOf(plans, 'x'.repeat(300), { speedOfAll: 123_456.7, ranAhead: 12_345 })
  t.equal(long.length, 256)
})

t.test('one pass that takes over makes all, and what is left of the progress', async (t) => {
  const ladder = ladderFor(1280, 720)
  t.strictSame(planTakeover(ladder, { hasAudio: true }, 0.9), {
    renditions: ladder,
    withAudio: true,
    publishesEarly: false,
    weight: 0.9,
  })
  const weights = planPasses(ladder, { width: 1280, height: 720, seconds: 60, hasAudio: true }).map((p) => p.weight)
  t.ok(Math.abs(weights.reduce((a, b) => a + b) - 1) < 1e-9)
})
