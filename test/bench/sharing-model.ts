import { rational } from '../../jobs/ffmpeg/rational.ts'
import { chunksOf } from '../../jobs/hls/chunks/layout.ts'
import { timelineOf } from '../../jobs/hls/timeline.ts'
import { aloneWall, type SharedCosts, sharedWall } from '../support/sharing-model.ts'

/**
 * What more pods would save of a video of `BENCH_SECONDS` (7200) at 30 frames per second, reckoned and not measured: the
 * real chunks, taken as the programs take them, each for what it costs by `BENCH_FIRST` (0.56) and `BENCH_OTHERS` (2.4)
 * seconds of a pod for a second of the video, `BENCH_CHUNK` (1.5) for each chunk, and `BENCH_PLAN` (5) until helpers begin.
 */
const number = (name: string, value: number) => Number(process.env[name] ?? value)
const costs: SharedCosts = {
  seconds: number('BENCH_SECONDS', 7200),
  first: number('BENCH_FIRST', 0.56),
  others: number('BENCH_OTHERS', 2.4),
  chunk: number('BENCH_CHUNK', 1.5),
  plan: number('BENCH_PLAN', 5),
}
const SEGMENT_SECONDS = 6
/** Wall time × pods, of one pod. */
const TARGET = 1.25

const timeline = timelineOf([{ frameRate: rational(30) }], SEGMENT_SECONDS)
const alone = aloneWall(costs)
const rows = [1, 2, 4, 8, 16, 64].map((pods) => {
  // What one pod does alone with chunks is made for two.
  const chunks = chunksOf(timeline, costs.seconds * 30, Math.max(2, pods))
  const wall = sharedWall(chunks, SEGMENT_SECONDS, pods, costs)
  const withoutFirst = sharedWall(chunks, SEGMENT_SECONDS, pods, { ...costs, first: 0 })
  const ratio = (wall * pods) / alone
  const rest = (withoutFirst * pods) / (alone - costs.first * costs.seconds)
  const verdict = ratio <= TARGET ? 'met' : 'missed'
  const numbers = [pods, chunks.length, wall.toFixed(0), (alone / wall).toFixed(2)]
  return `| ${[...numbers, `${ratio.toFixed(2)}, ${verdict}`, rest.toFixed(2)].join(' | ')} |`
})
console.log(
  [
    `${costs.seconds} s, ${alone.toFixed(0)} s by one pod that makes everything`,
    '',
    `| pods | chunks | wall, s | speedup | wall × pods, of one pod, at most ${TARGET} | the same without the first pass |`,
    '|---|---|---|---|---|---|',
    ...rows,
  ].join('\n'),
)
