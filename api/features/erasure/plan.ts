import { type EraseStep, PHASES } from '../../personal/part.ts'

/** All steps in the order in which an erasure takes them: by phase, and in a phase as the parts list them. */
export const inOrder = (steps: readonly EraseStep[]): EraseStep[] =>
  PHASES.flatMap((phase) => steps.filter((step) => step.phase === phase))

/**
 * Whether a step may run now. Nothing goes before the ledger knows of the erasure and the account can do nothing any more;
 * traces, such as events, are removed once nothing makes new ones; what identifies the person is needed until the end. Of
 * the others none waits for one that fails: a store that is away does not keep texts from being removed.
 */
export function mayRun(step: EraseStep, steps: readonly EraseStep[], done: ReadonlySet<string>): boolean {
  const phase = PHASES.indexOf(step.phase)
  const isBarrier = step.phase === 'traces' || step.phase === 'identity'
  return steps.every((other) => {
    if (done.has(other.name)) return true
    const isBefore = PHASES.indexOf(other.phase) < phase
    return !(isBefore && (isBarrier || other.phase === 'access'))
  })
}
