import { API_VERSION } from '../../crds/kind.ts'
import { TRANSCODE_JOBS, type TranscodeInput } from '../../crds/transcode-job.ts'
import { formatId, suffixOf, type Uuid } from '../../lib/contract/ids.ts'
import { originalKey, outputPrefix } from '../../lib/contract/object-keys.ts'
import type { KubeObject } from '../../lib/runtime/cluster.ts'

export interface VideoToConvert {
  id: Uuid
  orgId: Uuid
  generation: number
}

/** One name per generation of a media item: a second creation fails with AlreadyExists. */
export const transcodeJobName = (video: Pick<VideoToConvert, 'id' | 'generation'>) =>
  `tj-${suffixOf(video.id)}-${video.generation}`

/** The resource that converts a video. The CRD's defaults fill the omitted fields. */
export function transcodeJobFor(
  video: VideoToConvert,
  namespace: string,
): KubeObject & { spec: { inputs: TranscodeInput[] } } {
  const id = formatId('media', video.id)
  return {
    apiVersion: API_VERSION,
    kind: TRANSCODE_JOBS.kind,
    metadata: {
      name: transcodeJobName(video),
      namespace,
      labels: {
        'app.kubernetes.io/managed-by': 'keepsake-worker',
        'media.keepsake.dev/org': formatId('organization', video.orgId),
      },
      annotations: { 'media.keepsake.dev/media': id },
    },
    spec: {
      inputs: [
        {
          id,
          type: 'video',
          sourceKey: originalKey(video.orgId, video.id),
          outputPrefix: outputPrefix(video.orgId, video.id, video.generation),
        },
      ],
    },
  }
}
