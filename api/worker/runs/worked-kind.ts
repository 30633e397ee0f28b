import type { FeatureWorkerDeps, WorkedKind } from '../feature-worker.ts'
import type { Filler } from '../filler.ts'
import type { RunKind, RunTypes } from './kind.ts'
import { followRuns } from './project.ts'
import { openSightings } from './sightings.ts'
import { repairRun, sweepRuns } from './sweep.ts'

interface WorkedRuns {
  /** Names its sweep in the log. */
  name: string
  fillers: readonly Pick<Filler, 'fill'>[]
  /** Notifications on this channel name a row to repair at once. */
  repairOn?: string
}

/** What a feature brings to the worker for a kind of runs. */
export function workedKind<K extends RunTypes>(
  deps: FeatureWorkerDeps,
  kind: RunKind<K>,
  { name, fillers, repairOn }: WorkedRuns,
): WorkedKind<K['object']> {
  const own = { fillers, sightings: openSightings() }
  return {
    kind: kind.resource.kind,
    name,
    follow: () => followRuns(deps, kind),
    sweep: (seen, options, signal) => sweepRuns({ ...deps, ...seen, ...own }, kind, options, signal),
    ...(repairOn && {
      repair: {
        channel: repairOn,
        row: (seen, options, id) => repairRun({ ...deps, ...seen, ...own }, kind, options, id),
      },
    }),
  }
}
