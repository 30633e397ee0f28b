import type { Answer, CallOptions, Person, TestApi } from './api.ts'

/** One request. */
export interface Attempt extends Pick<CallOptions, 'json' | 'form' | 'bytes'> {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string
}

export interface Subject {
  /** What the caller reads of the resource; undefined where it is not there for them. */
  show(who: Person): Promise<Answer['data'] | undefined>
  /** A request that performs the action, by its name. */
  attempts: Record<string, (who: Person) => Attempt | Promise<Attempt>>
}

/** Resources of one kind, in several states. */
export interface Scene {
  /** `on` of the actions. */
  kind: string
  callers: Record<string, Person>
  /** By the name of the state: makes a resource that no other attempt touches. */
  states: Record<string, () => Promise<Subject>>
}

export type Call = TestApi['call']

export async function made(answer: Promise<Answer>): Promise<Answer['data']> {
  const { status, body, data } = await answer
  if (status < 300) return data
  throw new Error(`a scene was answered ${status}: ${JSON.stringify(body)}`)
}

/** What a GET shows; undefined for 404. */
export async function shown(answer: Promise<Answer>): Promise<Answer['data'] | undefined> {
  const { status, data, body } = await answer
  if (status === 404) return undefined
  if (status === 200) return data
  throw new Error(`a scene was answered ${status}: ${JSON.stringify(body)}`)
}
