import type { Uuid } from '../../../lib/contract/ids.ts'

/**
 * The first entry of each gzip member of a day's object, and where the member begins. Entries are sorted by actor, then
 * time, then id; those without an actor come last.
 */
export interface Member {
  actor: Uuid | null
  at: string
  offset: number
}

/** Sorts behind every UUID. */
const NO_ACTOR = '~'
const actorKey = (actor: Uuid | null) => actor ?? NO_ACTOR

/** The order of the entries of a file. */
export function compareInFile(
  a: { actorId: Uuid | null; occurredAt: string; id: Uuid },
  b: { actorId: Uuid | null; occurredAt: string; id: Uuid },
): number {
  const [ka, kb] = [actorKey(a.actorId), actorKey(b.actorId)]
  if (ka !== kb) return ka < kb ? -1 : 1
  if (a.occurredAt !== b.occurredAt) return a.occurredAt < b.occurredAt ? -1 : 1
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0
}

/**
 * The members that can hold entries of this actor up to a time, from the first to the last one; undefined where none can.
 */
export function membersOf(
  members: readonly Member[],
  actor: Uuid,
  upTo: string | undefined,
): { first: number; last: number } | undefined {
  const beginsBefore = (member: Member, at: string) => {
    const key = actorKey(member.actor)
    return key < actor || (key === actor && member.at <= at)
  }
  // The member before the first one that begins with the actor can end with the actor.
  let first = -1
  let last = -1
  for (const [n, member] of members.entries()) {
    if (actorKey(member.actor) < actor) first = n
    if (beginsBefore(member, upTo ?? NO_ACTOR)) last = n
    else break
  }
  return last < 0 ? undefined : { first: Math.max(0, first), last }
}
