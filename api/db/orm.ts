import { createRequire } from 'node:module'
import type * as drizzleOrm from 'drizzle-orm'
import type * as nodePostgres from 'drizzle-orm/node-postgres'
import type * as pgCore from 'drizzle-orm/pg-core'

/**
 * drizzle-orm, by `require`. Node 24 reads the package.json of a package anew for each of its ES modules, and for each
 * module that imports it by name; that of drizzle-orm has 180 kB. Importing it costs 0.8 s of CPU and 230 MiB of memory
 * in every process, requiring it 0.1 s and 15 MiB (docs/benchmarks.md). Types come from the ES modules.
 */
const require = createRequire(import.meta.url)
const orm = require('drizzle-orm') as typeof drizzleOrm
const pg = require('drizzle-orm/pg-core') as typeof pgCore

export const {
  and,
  asc,
  Column,
  count,
  DrizzleQueryError,
  desc,
  eq,
  exists,
  getTableColumns,
  getTableName,
  gt,
  gte,
  inArray,
  is,
  isNotNull,
  isNull,
  lte,
  ne,
  notInArray,
  or,
  SQL,
  Subquery,
  sql,
} = orm
export const {
  alias,
  bigint,
  boolean,
  customType,
  date,
  doublePrecision,
  integer,
  jsonb,
  PgTable,
  pgTable,
  primaryKey,
  text,
  timestamp,
  union,
  unionAll,
  uuid,
} = pg
export const { drizzle } = require('drizzle-orm/node-postgres') as typeof nodePostgres

export type SQL<T = unknown> = drizzleOrm.SQL<T>
export type { AnyColumn, Placeholder } from 'drizzle-orm'
export type { NodePgDatabase } from 'drizzle-orm/node-postgres'
export type { PgColumn, PgUpdateSetSource } from 'drizzle-orm/pg-core'
export type PgTable = pgCore.PgTable
