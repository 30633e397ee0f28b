import { setTimeout as sleep } from 'node:timers/promises'
import { type Chooser, chooseChunk } from './choose.ts'
import type { ChunkStates, Protocol, SharedPlan } from './protocol.ts'

/** How long a claim may be overwritten by another one that was written at the same time. */
const SETTLE_MS = 400

export interface Taker {
  protocol: Protocol
  plan: SharedPlan
  me: string
  start: number
  isOverdue(chunk: number): boolean
  signal: AbortSignal
}

export type Taken = { chunk: number; states: ChunkStates } | { chunk: undefined; states: ChunkStates }

/**
 * Claims the next chunk for this pod. The store has no locks: of two claims at once the later one counts, which both find
 * when they read it again. Where even that is missed, two pods make the same chunk, and one part replaces the other.
 */
export async function takeChunk(taker: Taker, known?: ChunkStates): Promise<Taken> {
  const { protocol, plan, me, start, isOverdue, signal } = taker
  const chooser: Chooser = { me, start, isOverdue, chunks: plan.chunks.length }
  for (let states = await protocol.states(plan.id, known); ; states = await protocol.states(plan.id)) {
    const chunk = chooseChunk(states, chooser)
    if (chunk === undefined) return { chunk, states }
    if (states.claims.get(chunk) !== me) await protocol.claim(plan.id, chunk, me)
    await sleep(SETTLE_MS, undefined, { signal })
    if ((await protocol.claimant(plan.id, chunk)) === me) return { chunk, states }
  }
}
