import type { Answer, CallOptions, Person, TestApi } from '../../../support/api.ts'

/** An organization and one of its members. What a seed makes for one side the other side must never reach. */
export interface Side {
  api: TestApi
  /** Wire id. */
  org: string
  person: Person
}

/** One request that succeeds. */
export interface SeededRequest extends Pick<CallOptions, 'json' | 'form' | 'bytes' | 'headers'> {
  /** Who may make it; left out for public operations. */
  as?: Person
  /** Of the path, as on the wire. */
  params?: Record<string, string>
  query?: Record<string, string>
  /** The caller's token is refused from then on, so that a repeat is answered 401. */
  signsOut?: true
}

/**
 * Makes what an operation's path and body name, and a request for it that succeeds. Every call makes everything anew,
 * and a body that differs from those before.
 */
export type Seed = (side: Side) => Promise<SeededRequest> | SeededRequest

/** By operationId. */
export type Seeds = Record<string, Seed>

/** What the suite needs to know of a list besides its seed. */
export interface ListSeed {
  /** Adds one item to the list that the seeded request asks for; resolves with its id as the list shows it. */
  add(side: Side): Promise<string>
  /** A filter of the list that lets every added item through. */
  filter?: Record<string, string>
}
export type ListSeeds = Record<string, ListSeed>

/** What a seed does on its way has to work. */
export async function made(answer: Promise<Answer>): Promise<Answer['data']> {
  const { status, body, data } = await answer
  if (status < 300) return data
  throw new Error(`a seed was answered ${status}: ${JSON.stringify(body)}`)
}
