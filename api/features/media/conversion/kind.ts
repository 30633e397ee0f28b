import { TRANSCODE_JOBS } from '../../../../crds/transcode-job.ts'
import type { WorkedKind } from '../../../worker/feature-worker.ts'
import { followConversions, type TranscodeJobObject } from './project.ts'
import { repairConversion, type SweepDeps, sweepConversions } from './sweep.ts'

type Deps = Omit<SweepDeps, 'projector' | 'queue'>

export const conversionKind = (deps: Deps): WorkedKind<TranscodeJobObject> => ({
  kind: TRANSCODE_JOBS.kind,
  name: 'conversions',
  follow: () => followConversions(deps),
  sweep: ({ follower, queue }, options, signal) =>
    sweepConversions({ ...deps, projector: follower, queue }, options, signal),
  repair: {
    // Its conversion may have ended while the media item was in the trash.
    channel: 'restored',
    row: ({ follower, queue }, options, id) => repairConversion({ ...deps, projector: follower, queue }, options, id),
  },
})
