import { setTimeout as sleep } from 'node:timers/promises'
import { type Chooser, chooseChunk } from './choose.ts'
import type { ChunkStates, Protocol, SharedPlan } from './protocol.ts'

/** How long a claim may be overwritten by another one that was written at the same time. */
const SETTLE_MS = 400
const TRIES = 10

export interface Taker {
  protocol: Protocol
  plan: SharedPlan
  me: string
  start: number
  isOverdue(chunk: number): boolean
  signal: AbortSignal
}

export interface Taken {
  /** Undefined while there is nothing to do. */
  chunk: number | undefined
  states: ChunkStates
  /** Another pod may still work on it. */
  isTakenOver: boolean
}

/**
 * Claims the next chunk for this pod. The store has no locks: of two claims at once the later one counts, which both find
 * when they read it again. Where even that is missed, two pods make the same chunk, and one part replaces the other.
 */
export async function takeChunk(taker: Taker, known?: ChunkStates): Promise<Taken> {
  const { protocol, plan, me, start, isOverdue, signal } = taker
  const chooser: Chooser = { me, start, isOverdue, chunks: plan.chunks.length }
  let states = await protocol.states(plan, known)
  for (let tries = 1; ; tries++) {
    const chunk = chooseChunk(states, chooser)
    if (chunk === undefined) return { chunk, states, isTakenOver: false }
    const claimed = states.claims.get(chunk)
    const isTakenOver = claimed !== undefined && claimed !== me
    if (claimed !== me) await protocol.claim(plan.id, chunk, me)
    // A pod that claims without end must not keep others from their work.
    if (isTakenOver || tries === TRIES) return { chunk, states, isTakenOver }
    await sleep(SETTLE_MS, undefined, { signal })
    if ((await protocol.claimant(plan.id, chunk)) === me) return { chunk, states, isTakenOver }
    states = await protocol.states(plan)
  }
}
