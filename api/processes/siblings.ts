import cluster from 'node:cluster'
import type { MetricsOf } from '../health/metrics.ts'
import { openChannel } from './channel.ts'

/** The other processes of this replica, as one of them sees them. */
export interface Siblings {
  /** From 1; a process that replaces another one has its number. */
  readonly number: number
  /** Throws unless each process that has begun answers. */
  alive(): Promise<void>
  /** Throws unless a process that listens is ready. */
  ready(): Promise<void>
  /** Answers the others from now on. The supervisor kills a process that takes too long to come here. */
  begin(own: { ready(): Promise<void>; metrics(): Promise<MetricsOf[]> }): Promise<void>
  /** Tells the others that this process serves the public port. */
  join(): Promise<void>
}

/** More than a process takes to ask the others, less than the probes wait. */
const ALL_MS = 3800
const JOIN_MS = 10_000

/** `number`: of this process. Undefined in a program of one process. */
export function openSiblings(number: number): Siblings | undefined {
  const { worker } = cluster
  if (!worker) return undefined
  let own: Parameters<Siblings['begin']>[0] | undefined
  const ask = openChannel(worker, {
    alive: async () => {},
    ready: async () => own?.ready(),
    metrics: async () => own?.metrics(),
  })
  return {
    number,
    alive: async () => void (await ask('alive', ALL_MS)),
    ready: async () => void (await ask('ready', ALL_MS)),
    async begin(answers) {
      own = answers
      await ask('begun', JOIN_MS)
    },
    join: async () => void (await ask('listening', JOIN_MS)),
  }
}
