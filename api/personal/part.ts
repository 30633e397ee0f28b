import type { Uuid } from '../../lib/contract/ids.ts'
import type { EventBus } from '../../lib/runtime/event-bus/event-bus.ts'
import type { Cluster } from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../db/db.ts'

/**
 * What a column holds of people. Every column that could hold something of a person has an entry: text, JSON, arrays, and
 * ids that are no foreign key. Numbers, times and closed lists need none.
 */
export type PersonalColumn =
  /** What a person wrote, or what was written about a person. `erase`: how it goes. `canary`: what a test finds there. */
  | { erase: string; canary: Canary }
  /** The id of a person: `gone` after the erasure, or why it stays. */
  | { person: 'gone' | { stays: string } }
  | { harmless: string }

/** The kinds of values by which a test recognizes what a person left. */
export type Canary = 'text' | 'email' | 'phone' | 'id' | 'agent' | 'address' | 'token' | 'subject'

/** A table, as docs/privacy.md describes it. */
export interface PersonalTable {
  holds: string
  /** How long, without an erasure. */
  kept: string
  columns: Readonly<Record<string, PersonalColumn>>
}
export type PersonalTables = Readonly<Record<string, PersonalTable>>

/** The order in which an erasure proceeds. Nothing of `identity` begins before all else is done. */
export const PHASES = ['access', 'uploads', 'withdrawal', 'composites', 'files', 'texts', 'traces', 'identity'] as const
export type Phase = (typeof PHASES)[number]

/** The person, as the steps need them. The addresses are there until the last step. */
export interface ErasedPerson {
  /** The erasure. */
  erasureId: Uuid
  userId: Uuid
  issuer: string
  subject: string
  /** In lower case. */
  email: string | null
  phoneNumber: string | null
}

export interface EraseDeps {
  /** Connected as keepsake_worker. */
  db: Database
  store: ObjectStore
  bus: Pick<EventBus, 'erase'>
  cluster: Pick<Cluster, 'get' | 'list' | 'create' | 'delete'>
  namespace: string
  log: Log
  /** The environment of the worker. */
  config: Readonly<Record<string, unknown>>
  signal?: AbortSignal
}

/** How many of what a step erased this time: numbers and nothing else, for the certificate. */
export interface Erased {
  counts: Readonly<Record<string, number>>
  /** Something is still in use, such as a resource whose pods have to end: the step runs again. */
  isWaiting?: boolean
}

/**
 * One step of an erasure. It may run twice, also at once, and after a crash at any point: it looks for what is there and
 * removes it, in short transactions.
 */
export interface EraseStep {
  /** `<part>.<what>`: names it in the database, in the certificate and in failpoints. */
  name: string
  phase: Phase
  /** For docs/privacy.md. */
  does: string
  run(deps: EraseDeps, person: ErasedPerson): Promise<Erased>
}

/** What a part of the program keeps of people, and how it goes. */
export interface PersonalPart {
  personal: PersonalTables
  erase: readonly EraseStep[]
}

/** Says of a part that it keeps nothing of people. */
export const NOTHING_OF_PEOPLE: PersonalPart = { personal: {}, erase: [] }

/** A step that is one transaction. */
export const step = (
  o: Omit<EraseStep, 'run'> & { run(deps: EraseDeps, person: ErasedPerson): Promise<Erased['counts']> },
): EraseStep => ({ ...o, run: async (deps, person) => ({ counts: await o.run(deps, person) }) })
