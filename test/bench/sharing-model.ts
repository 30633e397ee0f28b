import { rational } from '../../jobs/ffmpeg/rational.ts'
import { chunksOf, firstPassChunks, segmentsOf } from '../../jobs/hls/chunks/layout.ts'
import { ladderOf } from '../../jobs/hls/ladder.ts'
import { sharedCosts } from '../../jobs/hls/pass-plan.ts'
import { timelineOf } from '../../jobs/hls/timeline.ts'
import { aloneWall, sharedWall } from '../support/sharing-model.ts'

/**
 * What more pods would save of a video of `BENCH_SECONDS` (7200) and `BENCH_LINES` (1080) at 30 frames per second, reckoned
 * and not measured: the real chunks and the real first pass, taken and ended as the programs do it, each for what it costs by
 * `BENCH_FIRST` (0.56) and `BENCH_OTHERS` (2.4) seconds of a pod for a second of the video, `BENCH_CHUNK` (1.5) for each
 * chunk, and `BENCH_PLAN` (5) until helpers begin. The sound, and the smallest rendition within a chunk, cost the parts of
 * `BENCH_FIRST` that the programs reckon with.
 */
const number = (name: string, value: number) => Number(process.env[name] ?? value)
const seconds = number('BENCH_SECONDS', 7200)
const height = number('BENCH_LINES', 1080)
const [first, others] = [number('BENCH_FIRST', 0.56), number('BENCH_OTHERS', 2.4)]
const SEGMENT_SECONDS = 6
/** Wall time × pods, of one pod. */
const TARGET = 1.25

const picture = { width: Math.round((height * 16) / 9), height, frameRate: rational(30) }
const ladder = ladderOf(picture, ['360p', '720p', '1080p'])
const reckoned = sharedCosts(ladder, { ...picture, hasAudio: true })
const unit = first / (reckoned.ahead + reckoned.sound)
const costs = {
  ahead: reckoned.ahead * unit,
  sound: reckoned.sound * unit,
  others,
  all: others + (reckoned.all - reckoned.others) * unit,
}
const timeline = timelineOf(ladder, SEGMENT_SECONDS)
const segments = segmentsOf(timeline, seconds * 30)
const alone = aloneWall({ costs }, seconds)
const rows = [1, 2, 4, 8, 16, 64].map((pods) => {
  // What one pod does alone with chunks is made for two.
  const chunks = chunksOf(timeline, seconds * 30, Math.max(2, pods))
  const times = {
    ...{ seconds, pods, segmentSeconds: SEGMENT_SECONDS },
    ...{ chunk: number('BENCH_CHUNK', 1.5), plan: number('BENCH_PLAN', 5) },
  }
  // The programs decide by what they reckon with.
  const cut = { chunks, segments, costs, fullFrom: firstPassChunks(chunks, segments, pods, reckoned) }
  const { wall, covered } = sharedWall(cut, times)
  const whole = sharedWall({ ...cut, fullFrom: chunks.length }, times)
  const ratio = (wall * pods) / alone
  const verdict = ratio <= TARGET ? 'met' : 'missed'
  const part = ((covered * SEGMENT_SECONDS) / seconds).toFixed(2)
  const numbers = [pods, chunks.length, covered === segments ? 'all' : part, wall.toFixed(0), (alone / wall).toFixed(2)]
  return `| ${[...numbers, `${ratio.toFixed(2)}, ${verdict}`, (alone / whole.wall).toFixed(2)].join(' | ')} |`
})
console.log(
  [
    `${seconds} s, ${alone.toFixed(0)} s by one pod that makes everything`,
    '',
    `| pods | chunks | first pass | wall, s | speedup | wall × pods, of one pod, at most ${TARGET} | speedup with all of the first pass |`,
    '|---|---|---|---|---|---|---|',
    ...rows,
  ].join('\n'),
)
