import t from 'tap'
import type { BatchPriority } from '../../../../../api/features/media/conversion/batch-plan.ts'
import { batchJobFor, transcodeJobFor } from '../../../../../api/features/media/conversion/transcode-spec.ts'
import { parseTranscodeJob } from '../../../../../crds/transcode-job.ts'
import { newUuid } from '../../../../../lib/contract/ids.ts'

const MIB = 2 ** 20
const image = (fileSizeBytes: number) => ({
  ...{ id: newUuid(), orgId: newUuid(), generation: 1, fileSizeBytes },
  originalTier: 'hot' as const,
})
const specOf = (bytes: number[], priority: BatchPriority = 'backfill') => {
  const batch = { id: newUuid(), orgId: newUuid(), priority, members: bytes.map(image) }
  const job = batchJobFor(batch, 'media')
  const parsed = parseTranscodeJob({ ...job, metadata: { ...job.metadata, uid: 'uid-1' } })
  if ('problem' in parsed) throw new Error(parsed.problem)
  return parsed.resource.spec
}

t.test('a batch of images takes no GPU from a video', async (t) => {
  t.match(specOf([5]), { accelerator: 'cpu', priority: 'backfill' })
  t.match(specOf([5], 'interactive'), { accelerator: 'cpu', priority: 'interactive' })
  t.notOk('accelerator' in transcodeJobFor(image(5), 'media').spec, 'videos keep the default')
})

t.test('a video says how many pods it has only where they are several', async (t) => {
  t.notOk('parallelism' in transcodeJobFor(image(5), 'media', 1).spec)
  t.equal(transcodeJobFor(image(5), 'media', 3).spec.parallelism, 3)
})

const videoDeadline = (bytes: number) => transcodeJobFor(image(bytes), 'media').spec.attemptDeadlineSeconds ?? 0

const DEADLINES: [name: string, bytes: number[], seconds: number][] = [
  ['one small image', [5], 600 + 60 + 2],
  ['the largest image', [200 * MIB], 600 + 60 + 400],
  ['a full batch', Array.from({ length: 64 }, () => 4 * MIB), 600 + 64 * 60 + 512],
]
for (const [name, bytes, seconds] of DEADLINES) {
  t.test(`the deadline of an attempt: ${name}`, async (t) => {
    t.equal(specOf(bytes).attemptDeadlineSeconds, seconds)
    t.ok(seconds < videoDeadline(0), 'shorter than that of a video')
  })
}

const GIB = 2 ** 30
const HOUR = 3600
const CORES = 2
/** Core-seconds for a second of video, as docs/benchmarks.md measured them. */
const COSTS = { '1080p30': 2.96, '1080p60': 5.92, '4K30 in HDR': 5 }

const VIDEOS: [name: string, bytes: number, seconds: number, cost: keyof typeof COSTS][] = [
  ['the longest video in the largest file', 10 * GIB, 4 * HOUR, '1080p30'],
  ['the same with twice the frames', 10 * GIB, 4 * HOUR, '1080p60'],
  ['the same in 4K', 10 * GIB, 4 * HOUR, '4K30 in HDR'],
  ['a film of two hours', 4.5 * GIB, 2 * HOUR, '1080p30'],
  ['a film of two hours of 1 Mbit/s', 0.9 * 10 ** 9, 2 * HOUR, '1080p30'],
  ['the longest video of 1 Mbit/s', 1.8 * 10 ** 9, 4 * HOUR, '1080p30'],
  ['a minute as a phone records it', 0.4 * GIB, 60, '4K30 in HDR'],
]
for (const [name, bytes, seconds, cost] of VIDEOS) {
  t.test(`${name}, ${cost}, can be converted by ${CORES} cores within one attempt`, async (t) => {
    const job = transcodeJobFor(image(Math.round(bytes)), 'media')
    const parsed = parseTranscodeJob({ ...job, metadata: { ...job.metadata, uid: 'uid-1' } })
    if ('problem' in parsed) throw new Error(parsed.problem)
    const { attemptDeadlineSeconds } = parsed.resource.spec
    const needed = (seconds * COSTS[cost]) / CORES
    t.ok(attemptDeadlineSeconds >= needed, `${attemptDeadlineSeconds} s for ${Math.round(needed)}`)
  })
}

t.test('a small video has as long as it ever had, and none has more than the definition admits', async (t) => {
  t.equal(videoDeadline(0), 2 * HOUR)
  t.equal(videoDeadline(5 * MIB), 2 * HOUR + 71)
  t.equal(videoDeadline(GIB), 6 * HOUR)
  t.equal(videoDeadline(100 * GIB), 24 * HOUR)
})
