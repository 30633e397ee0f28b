import { judgePod } from './pod-failure-policy.ts'
import { COMPLETION_INDEX, isTerminal, type Job, type JobStatus, type Pod, SUSPENDED } from './types.ts'

/** The indexes of an Indexed Job. */
export interface Indexes {
  completed: ReadonlySet<number>
  failed: ReadonlySet<number>
  /** Failed pods of each index, of those that are still there. */
  failures: ReadonlyMap<number, number>
}

const indexOf = ({ metadata }: Pod): number => Number(metadata.annotations?.[COMPLETION_INDEX])

/** Undefined for a Job that is not Indexed. */
export function indexesOf({ spec, status }: Job, pods: readonly Pod[]): Indexes | undefined {
  if (spec.completionMode !== 'Indexed') return undefined
  const completed = parse(status?.completedIndexes)
  const failed = parse(status?.failedIndexes)
  const failures = new Map<number, number>()
  for (const pod of pods.filter(isTerminal)) {
    const index = indexOf(pod)
    const action = outcomeOf(spec, pod)
    if (action === 'Succeeded') completed.add(index)
    if (action === 'FailIndex') failed.add(index)
    if (action === 'Count') failures.set(index, (failures.get(index) ?? 0) + 1)
  }
  const { backoffLimitPerIndex: limit = Number.POSITIVE_INFINITY } = spec
  for (const [index, n] of failures) if (n > limit && !completed.has(index)) failed.add(index)
  return { completed, failed, failures }
}

function outcomeOf({ podFailurePolicy }: Job['spec'], pod: Pod) {
  if (pod.status?.phase === 'Succeeded') return 'Succeeded'
  return pod.metadata.annotations?.[SUSPENDED] ? 'Ignore' : judgePod(podFailurePolicy?.rules ?? [], pod).action
}

const isDone = ({ completed, failed }: Indexes, index: number) => completed.has(index) || failed.has(index)
const all = ({ spec: { completions = 0 } }: Job): number[] => Array.from({ length: completions }, (_, i) => i)

/** Whether every index is over, and one of them has failed. */
export const hasFailedIndexes = (job: Job, indexes: Indexes | undefined): boolean =>
  indexes !== undefined && indexes.failed.size > 0 && all(job).every((i) => isDone(indexes, i))

/** The indexes that need a pod, the lowest first, when these pods are there. */
export function missing(job: Job, indexes: Indexes, there: readonly Pod[]): number[] {
  const taken = new Set(there.map(indexOf))
  return all(job).filter((i) => !isDone(indexes, i) && !taken.has(i))
}

/** As in a Job's status. */
export function indexesIn(indexes: Indexes | undefined): Pick<JobStatus, 'completedIndexes' | 'failedIndexes'> {
  const { completed = new Set<number>(), failed = new Set<number>() } = indexes ?? {}
  return {
    ...(completed.size > 0 && { completedIndexes: text(completed) }),
    ...(failed.size > 0 && { failedIndexes: text(failed) }),
  }
}

/** `0,2-4` */
function parse(ranges = ''): Set<number> {
  const found = new Set<number>()
  for (const range of ranges.split(',').filter(Boolean)) {
    const [from = 0, to = from] = range.split('-').map(Number)
    for (let i = from; i <= to; i++) found.add(i)
  }
  return found
}

function text(indexes: ReadonlySet<number>): string {
  const ranges: [from: number, to: number][] = []
  for (const i of [...indexes].sort((a, b) => a - b)) {
    const last = ranges.at(-1)
    if (last && last[1] === i - 1) last[1] = i
    else ranges.push([i, i])
  }
  return ranges.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(',')
}
