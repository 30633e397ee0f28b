/**
 * An error without the values that it quotes. Errors of databases and parsers contain their input: names, addresses and
 * messages of users, which logs must not keep. What an operator needs stays: the statement without its parameters,
 * SQLSTATE, table, column, constraint, and the stack.
 */
export interface LoggedError {
  type: string
  message: string
  stack: string
  cause?: unknown
  errors?: unknown[]
  [property: string]: unknown
}

const DEEPEST = 5
const MAX_MESSAGE = 2000
const MAX_STACK = 8000

/** Of https://www.postgresql.org/docs/18/protocol-error-fields.html: no message text, and no row. */
const DATABASE_FIELDS = [
  'severity',
  'code',
  'schema',
  'table',
  'column',
  'dataType',
  'constraint',
  'position',
  'routine',
]
const OWN_FIELDS = [
  'name',
  'message',
  'stack',
  'cause',
  'errors',
  'query',
  'params',
  'detail',
  'where',
  'hint',
  'input',
  'body',
]

/** The error, its causes and its parts, as a log line holds them. A thrown object that is not an error is reduced to its type. */
export function loggable(error: unknown, depth = 0): unknown {
  if (!isErrorLike(error)) return typeof error === 'object' ? { type: 'object' } : error
  if (depth === DEEPEST) return { type: typeOf(error) }
  const message = messageOf(error)
  const shown: LoggedError = { type: typeOf(error), message, stack: stackOf(error, message), ...fieldsOf(error) }
  if (error.cause !== undefined) shown.cause = loggable(error.cause, depth + 1)
  if (Array.isArray(error.errors)) shown.errors = error.errors.slice(0, 10).map((e) => loggable(e, depth + 1))
  return shown
}

/** The messages of an error and its causes as one text, without quoted values. */
export function safeMessage(error: unknown, depth = 0): string {
  if (!isErrorLike(error)) return typeof error === 'object' ? 'an object was thrown' : String(error)
  const message = messageOf(error)
  return error.cause === undefined || depth === DEEPEST ? message : `${message}: ${safeMessage(error.cause, depth + 1)}`
}

interface ErrorLike {
  message: string
  name?: unknown
  stack?: unknown
  cause?: unknown
  errors?: unknown
}

const isErrorLike = (error: unknown): error is ErrorLike =>
  typeof error === 'object' && error !== null && typeof (error as { message?: unknown }).message === 'string'

const typeOf = (error: ErrorLike) => error.constructor?.name ?? String(error.name)

/** drizzle's DrizzleQueryError, whose message ends with the parameters. */
const isFailedQuery = (error: ErrorLike): error is ErrorLike & { query: string } =>
  'params' in error && typeof (error as { query?: unknown }).query === 'string'

/** pg's DatabaseError: what the server sent. */
const isDatabaseError = (error: ErrorLike): error is ErrorLike & { code: string } =>
  'severity' in error && /^[0-9A-Z]{5}$/.test(String((error as { code?: unknown }).code))

/** SQLSTATE class 22 (data exception) and JSON.parse quote the value; other messages quote names of tables and the like. */
const quotesInput = (error: ErrorLike) =>
  error instanceof SyntaxError || (isDatabaseError(error) && error.code.startsWith('22'))

function messageOf(error: ErrorLike): string {
  if (isFailedQuery(error)) return `Failed query: ${error.query}`.slice(0, MAX_MESSAGE)
  // From the first to the last quotation mark, since the value may hold some of its own.
  const message = quotesInput(error) ? error.message.replace(/".*"/s, '"[redacted]"') : error.message
  return message.slice(0, MAX_MESSAGE)
}

/** The frames below the message as it is shown: the stack itself begins with the message as it was thrown. */
function stackOf(error: ErrorLike, shown: string): string {
  const stack = typeof error.stack === 'string' ? error.stack : ''
  const header = `: ${error.message}`
  const at = stack.indexOf(header)
  const below = at < 0 ? stack : stack.slice(at + header.length)
  const frames = below.search(/\n {4}at /)
  return `${typeOf(error)}: ${shown}${frames < 0 ? '' : below.slice(frames)}`.slice(0, MAX_STACK)
}

/** Codes and names that libraries attach. What is not a plain value may hold a whole request or answer. */
function fieldsOf(error: ErrorLike): Record<string, unknown> {
  const isWanted = isDatabaseError(error)
    ? (name: string) => DATABASE_FIELDS.includes(name)
    : (name: string) => !OWN_FIELDS.includes(name)
  const fields = Object.entries(error).filter(([name, value]) => isWanted(name) && isPlain(value))
  return Object.fromEntries(fields)
}

const isPlain = (value: unknown) =>
  typeof value === 'number' || typeof value === 'boolean' || (typeof value === 'string' && value.length <= MAX_MESSAGE)
