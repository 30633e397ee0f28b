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

const DEADLINES: [name: string, bytes: number[], seconds: number][] = [
  ['one small image', [5], 600 + 60 + 2],
  ['the largest image', [200 * MIB], 600 + 60 + 400],
  ['a full batch', Array.from({ length: 64 }, () => 4 * MIB), 600 + 64 * 60 + 512],
]
for (const [name, bytes, seconds] of DEADLINES) {
  t.test(`the deadline of an attempt: ${name}`, async (t) => {
    t.equal(specOf(bytes).attemptDeadlineSeconds, seconds)
    t.ok(seconds < 7200, 'shorter than that of a video')
  })
}
