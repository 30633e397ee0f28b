import type { Readable } from 'node:stream'
import type * as z from 'zod'
import { type IdKind, parseId, type Uuid } from '../../lib/contract/ids.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../db/db.ts'

/** The command line was used wrongly: exit status 2, with the help text. */
export class UsageError extends Error {}

/** What was asked for was done, and its result is bad news: it is printed all the same. Exit status 4. */
export class Failed extends Error {
  readonly result: object

  constructor(message: string, result: object) {
    super(message)
    this.result = result
  }
}

export interface Session {
  /** Connected as keepsake_worker. */
  db: Database
  /** The identity provider of users named by their subject. */
  issuer: string | undefined
  /** Opened when it is needed: most commands need no store. */
  store(): Promise<ObjectStore>
  /** Standard input. */
  input(): Readable
  /** Prints a line of JSON before the result, for what may be too much to hold in memory. */
  print(line: object): void
  /** A part of the environment that only some commands need. */
  settings<S extends z.ZodObject>(schema: S): Readonly<z.output<S>>
}

/** A command of an administrator, which no endpoint offers. */
export interface Command {
  /** The names of the required arguments. */
  args: readonly string[]
  options?: Readonly<Record<string, 'string' | 'boolean'>>
  /** For a statement that may take longer than usual. */
  statementTimeoutMs?: number
  /** For the help text: `org create NAME`, and what it does, in lines. */
  help: readonly [usage: string, ...does: string[]]
  /** The result is printed as JSON. */
  run(session: Session, args: string[], options: Options): Promise<object>
}
export type Options = Readonly<Record<string, string | boolean | undefined>>

/** By area and verb: `media retry`. The form `media retry --reason` is for a call with that option. */
export type Commands = Readonly<Record<string, Command>>

export const textOf = (options: Options, name: string): string | undefined => {
  const given = options[name]
  return typeof given === 'string' ? given : undefined
}

/** An id as an argument. */
export function idOf(kind: IdKind, text: string): Uuid {
  const uuid = parseId(kind, text)
  if (uuid === undefined) throw new UsageError(`${text} is not an id of kind ${kind}`)
  return uuid
}
