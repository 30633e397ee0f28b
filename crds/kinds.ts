import { highlightRenderKind } from './highlight-render.ts'
import { retentionPolicyKind } from './retention-policy.ts'
import { transcodeJobKind } from './transcode-job.ts'

/** All kinds, in the order in which a newcomer meets them. */
export const KINDS = [transcodeJobKind, highlightRenderKind, retentionPolicyKind] as const
