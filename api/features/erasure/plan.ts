import { type EraseStep, PHASES, type Phase } from '../../personal/part.ts'

/** All steps in the order in which an erasure takes them: by phase, and in a phase as the parts list them. */
export const inOrder = (steps: readonly EraseStep[]): EraseStep[] =>
  PHASES.flatMap((phase) => steps.filter((step) => step.phase === phase))

/**
 * No step of a later phase begins before these are done: nothing goes before the ledger knows of the erasure and the account
 * can do nothing any more; films and notifications are found by what the steps behind them remove. None of them needs the
 * object store.
 */
const BARRIERS: readonly Phase[] = ['access', 'withdrawal', 'composites']

/**
 * Whether a step may run now. Traces, such as events, are removed once nothing makes new ones; what identifies the person is
 * needed until the end. Others do not wait for one that fails: a store that is away does not keep texts from being removed.
 */
export function mayRun(step: EraseStep, steps: readonly EraseStep[], done: ReadonlySet<string>): boolean {
  const phase = PHASES.indexOf(step.phase)
  const isLast = step.phase === 'traces' || step.phase === 'identity'
  return steps.every((other) => {
    if (done.has(other.name)) return true
    const isBefore = PHASES.indexOf(other.phase) < phase
    return !(isBefore && (isLast || BARRIERS.includes(other.phase)))
  })
}
