import { EXIT } from '../../../lib/contract/job-result.ts'
import type { RetentionResult, RetentionRun } from '../../../lib/contract/retention.ts'

/**
 * The exit code of a process. A Job without `completions` makes no pod any more once one has succeeded, so a process succeeds only if
 * it can say how the run ended. One that was told to end has not: the Job makes another pod for it, and counts no failure
 * if the cluster has marked it as disrupted. When the operator ends a run, it suspends the Job first.
 */
export function exitOf({ ended }: Pick<RetentionResult, 'ended'>, { aborted }: Pick<AbortSignal, 'aborted'>): number {
  if (ended !== 'Stopped') return EXIT.ok
  return aborted ? EXIT.terminated : EXIT.transient
}

/** Words about a run whose figures do not say enough; undefined if they do. */
export function reasonOf(o: { refusal: string | undefined; held: number }): string | undefined {
  const held = o.held > 0 ? [`${o.held} due ${o.held === 1 ? 'item is' : 'items are'} kept by legal holds`] : []
  const parts = [...(o.refusal === undefined ? [] : [o.refusal]), ...held]
  return parts.length > 0 ? parts.join('; ').slice(0, 512) : undefined
}

/** After so many refusals in a row the store counts as unavailable. */
export const MAX_REFUSALS = 20
/** The same for items in a row: a store that answers, and allows no deletion. */
export const MAX_REFUSED_ITEMS = 100
/** Pause after the n-th refusal in a row, from 1: one second, doubled up to a minute. */
export const refusalPauseMs = (refusals: number): number => Math.min(60_000, 1000 * 2 ** (refusals - 1))

/** Items in work at once: while one waits for the store, others do. */
export const MAX_AT_ONCE = 4

/** Items of the next batch in work at once: half as many after the store has asked for fewer requests, one more otherwise. */
export const nextAtOnce = (atOnce: number, hasSlowedDown: boolean): number =>
  hasSlowedDown ? Math.max(1, Math.floor(atOnce / 2)) : Math.min(MAX_AT_ONCE, atOnce + 1)

/** Whether a run puts objects into the cold tier. */
export const needsColdTier = ({ rules }: Pick<RetentionRun, 'rules'>): boolean =>
  rules.some((rule) => rule.action === 'moveToTier' && rule.tier === 'cold')

/** The share of one process in the bytes per second of its run; undefined without a limit. */
export const shareOf = ({ bytesPerSecond, parallelism }: RetentionRun): number | undefined =>
  bytesPerSecond === undefined ? undefined : Math.max(1, bytesPerSecond / parallelism)
