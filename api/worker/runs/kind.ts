import type * as z from 'zod'
import type { RunStatus } from '../../../crds/run.ts'
import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Cluster, KubeObject, Resource } from '../../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import type { Database, Tx } from '../../db/db.ts'
import type { PgColumn, PgTable, SQL } from '../../db/orm.ts'
import type { RunFact } from './facts.ts'
import type { RunSeen } from './progress-plan.ts'

/** A row whose work a custom resource carries out. */
export interface RunRow extends RunSeen {
  id: Uuid
  orgId: Uuid
  /** Of the attempt to do the work that counts: resources of earlier ones change nothing. */
  generation: number
  status: 'processing' | 'completed' | 'failed'
  outputPrefix: string | null
  /** When it got a slot of its organization. */
  admittedAt: Date | null
  updatedAt: Date
}
export type RunKey = Pick<RunRow, 'id' | 'generation'>

export type RunObject = KubeObject & { status?: RunStatus | undefined }

type RunColumn =
  | keyof RunRow
  | 'version'
  | 'finishedAt'
  | 'error'
  | 'hlsMaster'
  /** Set while the row is in the trash: then the result of its run does not matter. */
  | 'deletedAt'

/** Where the rows are. Values to set have the names of the table's own columns. */
export interface RunTable<Manifest> {
  table: PgTable
  columns: Readonly<Record<RunColumn, PgColumn>>
  /** What else the kind reads of a row. */
  more: Readonly<Record<string, PgColumn>>
  /** Whether the row may have a resource: the sweep repairs no others, to which no deadline applies. */
  mayHaveResource: SQL | undefined
  /** Set when a run succeeds, in addition to what every kind sets. */
  made(manifest: Manifest): Readonly<Record<string, unknown>>
  /** Set when a run fails. */
  failed: Readonly<Record<string, unknown>>
}

/** A manifest has at least the id of what it describes. */
export interface ManifestOfRun {
  id: string
}

/** What differs between kinds. `failure`: what a row says when its run has failed. */
export interface RunTypes {
  row: RunRow
  object: RunObject
  manifest: ManifestOfRun
  failure: unknown
}

/** What queries need of a kind. */
export type TableOfKind = Pick<RunKind<RunTypes>, 'table'>

/**
 * A kind of runs: rows of one table, each carried out by a custom resource. All that moves a row is written once, over
 * this description.
 */
export interface RunKind<K extends RunTypes> {
  resource: Resource
  /** Names a run, in logs and as the first part of its failpoints: `conversion`. */
  noun: string
  /** Names the row, in logs. */
  rowNoun: string
  table: RunTable<K['manifest']>
  /** The name of its resource, from which nothing but the row is needed: a second creation fails with AlreadyExists. */
  nameOf(row: K['row']): string
  /** Where its output is. Identifies the generation. */
  prefixOf(row: K['row']): string
  /** The resource to create, and the rows that fail when the cluster refuses it. Undefined when there is nothing to do. */
  wanted(db: Database, row: K['row'], namespace: string): Promise<WantedResource | undefined>
  /** What a resource says about rows of this kind. Pure. */
  factsOf(object: K['object']): RunFact<K['failure']>[]
  /** The fields of the spec that every run has, with their defaults. */
  runFieldsOf(spec: unknown): RunFields
  manifest: { schema: z.ZodType<K['manifest']>; idOf(id: Uuid): string; filesOf(manifest: K['manifest']): string[] }
  failures: {
    /** The cluster refuses the resource: a bug or a mismatched CRD. */
    refused: K['failure']
    /** The run succeeded, and its manifest cannot be used. */
    unusable: K['failure']
    timedOut: K['failure']
  }
  /** Announces a run that has succeeded, in the transaction that completes the row. */
  announce(tx: Tx, id: Uuid): Promise<void>
  /**
   * Says first in the transaction that ends a run whether it must fail in any case, and why. May lock rows that come
   * before this one in the order of locks.
   */
  hold?(tx: Tx, id: Uuid): Promise<K['failure'] | undefined>
  /**
   * The resource failed as a whole, with other outputs, and left no usable manifest of this one. Returns whether the run is
   * over, or undefined if it fails like every other.
   */
  regroup?(deps: RunDeps, row: K['row'], fact: FailedFact<K['failure']>): RegroupResult
  /** Whether the resource of a row that was given up still works for others. */
  isShared?(db: Database, row: K['row']): Promise<boolean>
}

type RegroupResult = Promise<boolean> | undefined
export type FailedFact<Failure> = Extract<RunFact<Failure>, { state: 'failed' }>

export interface WantedResource {
  object: KubeObject
  rows: readonly RunKey[]
}

export interface RunFields {
  attemptDeadlineSeconds: number
  maxAttempts: number
  suspend: boolean
}

/** What moves rows of any kind needs. */
export interface RunDeps {
  db: Database
  store: ObjectStore
  cluster: Pick<Cluster, 'create' | 'get' | 'delete'>
  namespace: string
  log: Log
}

/** Names the resource in logs: `transcodeJob`. */
export const fieldOf = ({ kind }: Resource) => kind.charAt(0).toLowerCase() + kind.slice(1)
