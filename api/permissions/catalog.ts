import type { IdKind, Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import type { Action } from './rule.ts'

/** What the composition tells the permission service of all features. */
export interface Catalog {
  actions: readonly Action[]
  /** By the kind of row that actions apply to (`on` of an action). */
  rows: Readonly<Record<string, Rows>>
}

/** How a dry run finds the row of an action. */
export interface Rows {
  /** The kind of id that names the row. */
  id: IdKind
  /** The row as the action's operation would read it, for this user; undefined if there is none. */
  find(tx: Tx, asked: { orgId: Uuid; id: Uuid; userId: Uuid; action: Action }): Promise<unknown>
}

/** The actions on one kind of row, in the order of their names. */
export type ActionsOn = (kind: string) => readonly Action[]

export function actionsOn(actions: readonly Action[]): ActionsOn {
  const sorted = actions.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  const byKind = Map.groupBy(sorted, ({ on }) => on)
  return (kind) => byKind.get(kind) ?? []
}
