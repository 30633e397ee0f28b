import { isUnopened } from '../../db/errors.ts'

/** Another process has the turn now: what this one began is rolled back, and delivered to the other. */
export class TurnLost extends Error {
  override readonly name = 'TurnLost'
}

/**
 * SQLSTATEs that say nothing about the event: connection (08), transaction to be repeated (40), resources (53), server
 * going down (57P), lock timeout, idle timeout, a server that takes no writes (25006); and a schema or a grant that the migration of this version still has to
 * bring. Of transactions that have begun: see `isUnopened`. https://www.postgresql.org/docs/18/errcodes-appendix.html
 */
const TRANSIENT_STATES = /^(08...|40...|53...|57P..|55P03|25P03|25006|42P01|42703|42883|42501)$/
const TRANSIENT_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
])
/** Errors of pg that have no code. */
const TRANSIENT_MESSAGES =
  /^(Connection terminated|Query read timeout|timeout exceeded when trying to connect|timeout expired|Client has encountered a connection error|Client was closed|Cannot use a pool after calling end)/

/**
 * The statement timeout. Not transient: a batch is halved, because smaller ones may be quick enough, and a single event is
 * parked, so that others go on, until an attempt some time later.
 */
const QUERY_CANCELED = '57014'

export const isCanceled = (error: unknown): boolean =>
  error instanceof Error && ((error as { code?: unknown }).code === QUERY_CANCELED || isCanceled(error.cause))

/** Whether a failure comes from the database or the network, so that the same event may succeed later. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (isUnopened(error)) return true
  const code = (error as { code?: unknown }).code
  if (typeof code === 'string' && (TRANSIENT_CODES.has(code) || TRANSIENT_STATES.test(code))) return true
  return TRANSIENT_MESSAGES.test(error.message) || isTransient(error.cause)
}
