import { API_VERSION } from '../../../../crds/kind.ts'
import { MAX_ATTEMPT_SECONDS } from '../../../../crds/run.ts'
import { TRANSCODE_JOBS, type TranscodeInput, type TranscodeJobSpec } from '../../../../crds/transcode-job.ts'
import { formatId, suffixOf, type Uuid } from '../../../../lib/contract/ids.ts'
import { type OriginalTier, originalKeyIn, outputPrefix } from '../../../../lib/contract/object-keys.ts'
import type { KubeObject } from '../../../../lib/runtime/kube/cluster.ts'
import type { BatchPriority } from './batch-plan.ts'

export interface MediaToConvert {
  id: Uuid
  orgId: Uuid
  generation: number
  originalTier: OriginalTier
  fileSizeBytes: number
}

/** Members of a batch in order of id. */
export interface BatchToConvert {
  id: Uuid
  orgId: Uuid
  priority: BatchPriority
  members: readonly MediaToConvert[]
}

type TranscodeJobToCreate = KubeObject & { spec: Pick<TranscodeJobSpec, 'inputs'> & Partial<TranscodeJobSpec> }

/** One name per generation of a media item: a second creation fails with AlreadyExists. */
export const transcodeJobName = (video: Pick<MediaToConvert, 'id' | 'generation'>) =>
  `tj-${suffixOf(video.id)}-${video.generation}`

/** One name per batch, whose members never change once this resource may exist. */
export const batchJobName = (batch: Uuid) => `tj-${suffixOf(batch)}`

/** The resource that converts a video, in so many pods at the same time. The CRD's defaults fill the omitted fields. */
export function transcodeJobFor(video: MediaToConvert, namespace: string, parallelism = 1): TranscodeJobToCreate {
  const name = transcodeJobName(video)
  const annotations = { 'media.keepsake.dev/media': formatId('media', video.id) }
  const attemptDeadlineSeconds = deadlineOfVideo(video)
  const spec = { inputs: [inputOf(video, 'video')], ...(parallelism > 1 && { parallelism }), attemptDeadlineSeconds }
  return resource({ name, namespace, annotations }, video.orgId, spec)
}

/** The resource that converts a batch of images. */
export function batchJobFor(batch: BatchToConvert, namespace: string): TranscodeJobToCreate {
  const inputs = batch.members.map((image) => inputOf(image, 'image'))
  const attemptDeadlineSeconds = deadlineOfImages(batch.members)
  // Nothing about an image runs on a GPU, which `auto` would take from a video.
  const spec = { inputs, priority: batch.priority, accelerator: 'cpu', attemptDeadlineSeconds } as const
  return resource({ name: batchJobName(batch.id), namespace }, batch.orgId, spec)
}

/** What every video may take. */
const VIDEO_SECONDS = 7200
/**
 * A GiB holds about 2.4 hours of 1 Mbit/s, the least that 1080p has as a rule. Two cores need 3.6 hours for them:
 * docs/media-limits.md has the calculation.
 */
const GIB_SECONDS = 14_400

/**
 * Only the size of a video is known before it is decoded. An attempt that is ended by its deadline has made nothing that
 * the next one could go on with, so the deadline is generous; the program itself ends an ffmpeg that hangs.
 */
const deadlineOfVideo = ({ fileSizeBytes }: MediaToConvert): number =>
  Math.min(MAX_ATTEMPT_SECONDS, VIDEO_SECONDS + Math.ceil((fileSizeBytes / 2 ** 30) * GIB_SECONDS))

/** For the image of the container, a node that has just started, and a store that is slow to answer. */
const START_SECONDS = 600
/** The processor time that a decoder may take for one image; most need a second. */
const IMAGE_SECONDS = 60
/** Download, and the upload of what was made. */
const MIB_SECONDS = 2

/**
 * Someone waits for an interactive batch, and a pod that hangs is replaced only after its deadline: the time of a video
 * would be too long. One that was too short costs little, because the next attempt skips what is done.
 */
function deadlineOfImages(images: readonly MediaToConvert[]): number {
  const bytes = images.reduce((sum, image) => sum + image.fileSizeBytes, 0)
  return START_SECONDS + images.length * IMAGE_SECONDS + Math.ceil(bytes / 2 ** 20) * MIB_SECONDS
}

function resource(
  metadata: { name: string; namespace: string; annotations?: Record<string, string> },
  orgId: Uuid,
  spec: TranscodeJobToCreate['spec'],
): TranscodeJobToCreate {
  const labels = {
    'app.kubernetes.io/managed-by': 'keepsake-worker',
    'media.keepsake.dev/org': formatId('organization', orgId),
  }
  return { apiVersion: API_VERSION, kind: TRANSCODE_JOBS.kind, metadata: { ...metadata, labels }, spec }
}

const inputOf = (
  { id, orgId, generation, originalTier }: MediaToConvert,
  type: TranscodeInput['type'],
): TranscodeInput => ({
  id: formatId('media', id),
  type,
  sourceKey: originalKeyIn(originalTier, orgId, id),
  outputPrefix: outputPrefix(orgId, id, generation),
})
