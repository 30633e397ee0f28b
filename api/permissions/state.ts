import { notFound, Problem, type ProblemCode } from '../../lib/contract/problem.ts'

/** Why the state of a row refuses an action, as the response says it. */
export interface StateRefusal {
  readonly code: ProblemCode
  readonly message: string
  /** Seconds. */
  readonly retryAfter?: number
}

/**
 * What the state of a row says to an action; undefined if the action can change something. `done`: a repeat succeeds and
 * changes nothing. `gone`: the row is not there for this action. Commands ask it of the row that they have locked, and
 * answers of the row that they show.
 */
export type State<S> = (row: S) => StateRefusal | 'done' | 'gone' | undefined

/** The first of these that objects. */
export const inOrder =
  <S>(...states: State<S>[]): State<S> =>
  (row) => {
    for (const state of states) {
      const says = state(row)
      if (says !== undefined) return says
    }
    return undefined
  }

/** Whether there is something to change; false for a repeat. Throws the Problem of a state that refuses it. */
export function requireState<S>(state: State<S> | undefined, row: S): boolean {
  const says = state?.(row)
  if (says === undefined) return true
  if (says === 'done') return false
  throw says === 'gone' ? notFound() : problemOf(says)
}

export const problemOf = ({ code, message, retryAfter }: StateRefusal) =>
  new Problem(code, message, retryAfter === undefined ? {} : { retryAfter })
