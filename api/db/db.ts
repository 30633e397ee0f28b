import type { Writable } from 'node:stream'
import pg from 'pg'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { isReadOnly, orReadOnlyServer, orUnopened } from './errors.ts'
import { makeTransactionGate, type TransactionGate, type Tx } from './transaction-gate.ts'
import { withOptions } from './url.ts'

export type { Tx }

/**
 * Scope of a transaction; row-level security hides everything else. `org` for tenant tables, `user` for a user's own
 * memberships. `{}` sees only tables without tenants (and, as keepsake_worker, everything).
 */
export interface Scope {
  org?: Uuid
  user?: Uuid
  /** Shows the audit log, of all organizations: for operations of platform administrators alone. */
  audit?: true
}

export interface Database {
  /** Commits when `work` resolves, rolls back when it throws. `work` must wait only for the database. */
  inTransaction<T>(scope: Scope, work: (tx: Tx) => Promise<T>): Promise<T>
  /** The same, read only. */
  read<T>(scope: Scope, work: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * Read only, for independent queries: all of them, with `begin` and `commit`, are one packet and one round trip.
   * `work` must have sent its queries when it returns its promise, as `execute()` of a prepared query does and `await`
   * of an unprepared one does not; a later query is refused.
   */
  readAtOnce<T>(scope: Scope, work: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * A transaction without a scope that commits whatever becomes of the transaction around it. It has a connection apart
   * from the pool, whose last connection may be the one that waits for this; `work` must be short and wait for no lock
   * that the transaction around it may hold.
   */
  aside<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * Throws if the database does not respond, or its server takes no writes. Asks on a connection of its own, so that a busy
   * pool is no outage.
   */
  check(): Promise<void>
  readonly pool: pg.Pool
  /** For small queries that must not wait for the pool: a connection of its own, which gives up soon. */
  readonly probe: pg.Pool
  close(): Promise<void>
}

export interface DatabaseOptions {
  url: string
  /** The role of every connection: owns nothing, cannot bypass row-level security. */
  role: 'keepsake_api' | 'keepsake_worker'
  statementTimeoutMs: number
  maxConnections: number
  log: Log
}

/** Of each step of a check: to connect, and to ask. */
const CHECK_MS = 1500

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/**
 * `begin` and the scope are one message, so row-level security costs no extra round trip. Not by `set_config`: a `select`
 * is planned and has a result, which doubles the CPU of an empty transaction.
 */
function beginStatement(scope: Scope, mode: 'read only' | 'read write'): string {
  const { audit, ...ids } = scope
  const parts = [`begin ${mode}`]
  if (audit) parts.push(`set local app."audit" = 'on'`)
  for (const [name, value] of Object.entries(ids)) {
    if (value === undefined) continue
    // The simple protocol has no parameters, so only a UUID may be inserted into the text.
    if (!UUID.test(value)) throw new Error(`scope ${name} is not a uuid`)
    parts.push(`set local app."${name === 'org' ? 'org' : 'user'}" = '${value}'`)
  }
  return parts.join('; ')
}

export function openDatabase(o: DatabaseOptions): Database {
  const settings = {
    ...withOptions(
      o.url,
      [
        `-c role=${o.role}`,
        `-c statement_timeout=${o.statementTimeoutMs}`,
        '-c lock_timeout=2000',
        '-c idle_in_transaction_session_timeout=15000',
        '-c timezone=UTC',
      ].join(' '),
    ),
    keepAlive: true,
    idleTimeoutMillis: 30_000,
    verify: (client: pg.PoolClient, done: (error?: Error) => void) =>
      void assertRole(client, o.role).then(() => done(), done),
  }
  const pool = new pg.Pool({
    ...settings,
    max: o.maxConnections,
    pipeline: true,
    connectionTimeoutMillis: 5_000,
    // The server enforces statement_timeout. If the network loses packets, only this and `keepAlive` end the wait.
    query_timeout: o.statementTimeoutMs + 5_000,
    application_name: o.role,
  })
  // An idle connection that breaks (server restart) must not end the process.
  pool.on('error', (error) => o.log.warn({ err: error }, 'idle database connection lost'))
  // A connection that breaks between two queries of a transaction has no other error listener and would end the
  // process. The next query of the transaction fails.
  pool.on('connect', (client) => client.on('error', (error) => o.log.debug({ err: error }, 'database connection lost')))

  // Opened by the first transaction aside.
  const apart = new pg.Pool({
    ...settings,
    max: 1,
    connectionTimeoutMillis: 5_000,
    query_timeout: o.statementTimeoutMs + 5_000,
    application_name: `${o.role}_aside`,
  })
  apart.on('error', (error) => o.log.warn({ err: error }, 'idle database connection lost'))
  apart.on('connect', (client) =>
    client.on('error', (error) => o.log.debug({ err: error }, 'database connection lost')),
  )

  // Opened by the first check. A probe waits for four seconds: connecting and asking must end before.
  const probe = new pg.Pool({
    ...settings,
    max: 2,
    connectionTimeoutMillis: CHECK_MS,
    query_timeout: CHECK_MS,
    application_name: `${o.role}_check`,
  })
  probe.on('error', (error) => o.log.debug({ err: error }, 'connection of the check lost'))
  // The pool itself listens for errors only between two queries, and not while a new connection tells its role.
  probe.on('connect', (client) =>
    client.on('error', (error) => o.log.debug({ err: error }, 'connection of the check lost')),
  )

  const gates = new WeakMap<pg.PoolClient, TransactionGate>()
  /** Building drizzle's view of a connection costs more than a small query, so it happens once per connection. */
  function gateOf(client: pg.PoolClient): TransactionGate {
    const gate = gates.get(client) ?? makeTransactionGate(client)
    gates.set(client, gate)
    return gate
  }

  async function write<T>(from: pg.Pool, scope: Scope, work: (tx: Tx) => Promise<T>): Promise<T> {
    const begin = beginStatement(scope, 'read write')
    const client = await from.connect().catch(orUnopened)
    const gate = gateOf(client)
    try {
      await client.query(begin).catch(orReadOnlyServer).catch(orUnopened)
      const result = await gate.whileOpen(work)
      await client.query('commit')
      client.release()
      return result
    } catch (error) {
      // The next connection may reach the new primary. This one never does, and the pool lends the last one first.
      if (isReadOnly(error)) client.release(error as Error)
      else await rollBack(client)
      throw error
    }
  }

  /**
   * Connections are pipelined: `begin` and the first query leave together, and the caller does not wait for the
   * `commit` of a transaction that changed nothing. A page with one query costs one round trip.
   */
  async function read<T>(scope: Scope, work: (tx: Tx) => Promise<T>): Promise<T> {
    const begin = beginStatement(scope, 'read only')
    const client = await pool.connect().catch(orUnopened)
    const gate = gateOf(client)
    try {
      sendTogether(client)
      const begun = client.query(begin).catch(orUnopened)
      // If `begin` fails, row-level security hides all rows, and an empty result must not count as the truth.
      const [result] = await Promise.all([gate.whileOpen(work), begun])
      commitAndRelease(client)
      return result
    } catch (error) {
      // If `begin` failed, `work` is still running.
      gate.close()
      await rollBack(client)
      throw error
    }
  }

  async function readAtOnce<T>(scope: Scope, work: (tx: Tx) => Promise<T>): Promise<T> {
    const begin = beginStatement(scope, 'read only')
    const client = await pool.connect().catch(orUnopened)
    sendTogether(client)
    const begun = client.query(begin).catch(orUnopened)
    const asked = gateOf(client).untilReturn(work)
    // After an error this rolls back: Postgres does not commit a transaction in which a statement failed.
    commitAndRelease(client)
    const [result] = await Promise.all([asked, begun])
    return result
  }

  return {
    pool,
    probe,
    inTransaction: (scope, work) => write(pool, scope, work),
    aside: (work) => write(apart, {}, work),
    read: (scope, work) => read(scope, work),
    readAtOnce: (scope, work) => readAtOnce(scope, work),
    check: () => checkWrites(probe),
    close: async () => void (await Promise.all([pool.end(), apart.end(), probe.end()])),
  }
}

/**
 * Throws if the server does not respond or takes no writes. The pool discards a connection that fails here, so the next
 * check asks the server to which new connections lead.
 */
export async function checkWrites(pool: pg.Pool): Promise<void> {
  await pool.query('begin read write; commit').catch(orReadOnlyServer)
}

/**
 * Once for each connection. A pooler that ignores `options` would hand out connections of the login user, who may own the
 * tables: without row-level security and timeouts.
 */
async function assertRole(client: pg.PoolClient, role: string): Promise<void> {
  const { rows } = await client.query<{ current_user: string }>('select current_user')
  const user = rows[0]?.current_user
  if (user === role) return
  const message =
    `The connection to the database has the role ${user} instead of ${role}: a pooler in between ignores the startup ` +
    'parameter `options`, which sets the role and the timeouts. Connect directly, or through a pooler in session mode that passes it on'
  // As for a connection that the server rejects: an outage, and not a fault of the request.
  throw Object.assign(new Error(message), { code: '08004' })
}

/** Discards a connection that cannot roll back: the next request would continue its open transaction. */
const rollBack = (client: pg.PoolClient): Promise<void> => endAndRelease(client, 'rollback')

/** Does not wait for the commit. Discards a connection that fails here. */
const commitAndRelease = (client: pg.PoolClient): void => void endAndRelease(client, 'commit')

async function endAndRelease(client: pg.PoolClient, statement: 'commit' | 'rollback'): Promise<void> {
  await client.query(statement).then(
    () => client.release(),
    (error: Error) => client.release(error),
  )
}

/** Queries sent in the same tick leave in one packet; in several, should pg keep its socket elsewhere. */
function sendTogether(client: pg.PoolClient): void {
  const { connection } = client as { connection?: { stream?: Writable } }
  connection?.stream?.cork()
  process.nextTick(() => connection?.stream?.uncork())
}
