import type { Uuid } from '../../../../lib/contract/ids.ts'
import { createResource, type StartDeps } from '../../../worker/runs/start.ts'
import { CONVERSIONS, wantedBatch } from './kind.ts'

/** Creates the TranscodeJob of a batch unless it exists or all its members are over. */
export async function startBatch(deps: StartDeps, batch: Uuid): Promise<void> {
  const wanted = await wantedBatch(deps.db, batch, deps.namespace)
  if (wanted) await createResource(deps, CONVERSIONS, wanted)
}
