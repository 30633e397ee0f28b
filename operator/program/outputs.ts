import type { Run, RunOutput, RunStatus } from '../../crds/run.ts'
import type { JobResult } from '../../lib/contract/job-result.ts'
import { manifestKey } from '../../lib/contract/object-keys.ts'
import type { ProgramKind } from './kind.ts'

/**
 * The fields of the final status that hold the result of each output. A termination message that would be too long
 * omits what follows from the specification: manifest keys and, after a success, the outputs that succeeded. They are
 * restored here. Empty when the program gave no result.
 */
export function outcomeOf(
  kind: ProgramKind,
  { spec }: Pick<Run, 'spec'>,
  result: JobResult | undefined,
): Pick<RunStatus, 'outputs'> {
  const said = new Map(result?.outputs?.map((o) => [o.id, o]))
  const outputs = kind.outputs(spec).flatMap(({ id, outputPrefix }): RunOutput[] => {
    const output = said.get(id) ?? (result?.ok ? { id, state: 'Succeeded' as const } : undefined)
    if (!output) return []
    const { manifestKey: key, reason, message, item } = output
    return [
      {
        id,
        state: output.state,
        ...(output.state === 'Succeeded' && { manifestKey: key ?? manifestKey(outputPrefix) }),
        ...(reason && { reason }),
        ...(message && { message }),
        ...(item && { item }),
      },
    ]
  })
  return outputs.length > 0 ? { outputs } : {}
}

/** Ids of the outputs that a final status says are there. */
export const playableOf = (status: RunStatus | undefined): string[] =>
  (status?.outputs ?? []).filter((o) => o.state === 'Succeeded').map((o) => o.id)
