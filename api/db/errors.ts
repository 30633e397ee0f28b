/** Whether a statement waited longer than `lock_timeout` for a lock. drizzle wraps the errors of pg. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof Error && ((error as { code?: unknown }).code === '55P03' || isLockTimeout(error.cause))
}

/** Whether a row that a statement refers to is not there; it may have been deleted since the statement began. */
export function isReferenceMissing(error: unknown): boolean {
  return error instanceof Error && ((error as { code?: unknown }).code === '23503' || isReferenceMissing(error.cause))
}

/** What Postgres answers to a statement that writes, on a server or in a transaction that only reads. */
const READ_ONLY = '25006'
const FEATURE_NOT_SUPPORTED = '0A000'

/** The server is in recovery: a standby, or the primary from before a failover. */
export class ReadOnlyServer extends Error {
  override readonly name = 'ReadOnlyServer'
  readonly code = READ_ONLY

  constructor(options?: ErrorOptions) {
    super('This server of the database is in recovery and takes no writes', options)
  }
}

/**
 * For failures of `begin read write`, to which a server in recovery answers with the code of all features that it does not
 * have. Rejects.
 */
export function orReadOnlyServer(error: unknown): never {
  const { code } = error as { code?: unknown }
  throw code === FEATURE_NOT_SUPPORTED ? new ReadOnlyServer({ cause: error }) : error
}

/** Whether a write was refused because its server or its connection only reads. */
export function isReadOnly(error: unknown): boolean {
  return error instanceof Error && ((error as { code?: unknown }).code === READ_ONLY || isReadOnly(error.cause))
}

const unopened = new WeakSet<object>()

/** For failures before the first statement of a transaction, which keep their code. Rejects. */
export function orUnopened(error: unknown): never {
  if (error instanceof Error) unopened.add(error)
  throw error
}

/**
 * Whether a transaction could not begin: no connection, a refused login, a database that is not there. Whatever the code, that
 * says nothing about what the transaction was to do.
 */
export const isUnopened = (error: unknown): boolean =>
  error instanceof Error && (unopened.has(error) || isUnopened(error.cause))
