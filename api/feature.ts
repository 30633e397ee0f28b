import type { Commands } from './command-line/command.ts'
import type { ApiDeps } from './deps.ts'
import type { Route } from './http/route.ts'
import type { Catalog, Rows } from './permissions/catalog.ts'
import type { Action } from './permissions/rule.ts'
import type { PersonalPart } from './personal/part.ts'
import type { OwnData } from './requests/own-data.ts'
import type { RetentionTarget } from './retention/target.ts'
import type { WorkerPart } from './worker/feature-worker.ts'

/**
 * What the programs ask of every feature: `feature.ts` in its folder holds it, and `features.ts` is the list. What it keeps
 * of people, and how that goes, every feature says (`NOTHING_OF_PEOPLE` for none).
 */
export interface Feature extends PersonalPart {
  /** Descriptions of the tags of its operations, for the OpenAPI document. */
  tags: Readonly<Record<string, string>>
  /** Uses no dependency before a request arrives: the generators build the list without any. */
  routes(deps: ApiDeps, catalog: Catalog): Route[]
  /** Operations for services of the cluster, on the internal port. Their actions are no others'. */
  internalRoutes?(deps: ApiDeps): Route[]
  /** All actions of its `policy.ts`. */
  actions: readonly Action[]
  /** The rows that its actions apply to, by the kind that the actions name (`on`). */
  rows?: Readonly<Record<string, Rows>>
  /** Commands of administrators. */
  commands?: Commands
  /** What a person gets of their own in an export of their data. */
  export: OwnData
  /** What policies of retention are about. */
  retention?: readonly RetentionTarget[]
  /** What it does in the worker. */
  worker?: WorkerPart
}
