import type { Uuid } from '../../../lib/contract/ids.ts'

/** How an invitation addresses its invitee. */
export interface Address {
  userId: Uuid | null
  email: string | null
}

/**
 * Which of these invitations to tell, so that a person who is invited through two channels is told once. `told` are the
 * invitations that make another message needless. `emails`: the verified address of each user among all of them, in lower case.
 */
export function invitationsToTell<T extends Address>(
  invitations: readonly T[],
  told: readonly Address[],
  emails: ReadonlyMap<Uuid, string>,
): T[] {
  const namesOf = ({ userId, email }: Address) => {
    const own = userId === null ? undefined : emails.get(userId)
    return [
      ...(userId === null ? [] : [userId]),
      ...(email === null ? [] : [email]),
      ...(own === undefined ? [] : [own]),
    ]
  }
  const known = new Set(told.flatMap(namesOf))
  // Users first: the app can tell a user in more ways than an address.
  const inOrder = [
    ...invitations.filter((one) => one.userId !== null),
    ...invitations.filter((one) => one.userId === null),
  ]
  return inOrder.filter((one) => {
    const names = namesOf(one)
    const isNew = !names.some((name) => known.has(name))
    for (const name of names) known.add(name)
    return isNew
  })
}
