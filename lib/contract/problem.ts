/**
 * All reasons to refuse a request, with their HTTP status. This is the only place that has those statuses. Wire-stable:
 * clients branch on the code. Add codes, never rename them.
 */
export const PROBLEMS = {
  MALFORMED_REQUEST: 400,
  VALIDATION_ERROR: 400,
  MALFORMED_JSON: 400,
  INVALID_CURSOR: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  REQUEST_TIMEOUT: 408,
  CONFLICT: 409,
  IDEMPOTENCY_IN_PROGRESS: 409,
  ALREADY_INVITED: 409,
  INVITATION_ALREADY_USED: 409,
  LEGAL_HOLD: 409,
  FILE_TOO_LARGE: 413,
  PAYLOAD_TOO_LARGE: 413,
  UNSUPPORTED_CONTENT_TYPE: 415,
  INVALID_STATE_TRANSITION: 422,
  EVENT_ARCHIVED: 422,
  ALBUM_ARCHIVED: 422,
  MUSIC_TRACK_NOT_FOUND: 422,
  REORDER_MISMATCH: 422,
  INVITATION_EXPIRED: 422,
  COMMENT_EDIT_WINDOW_EXPIRED: 422,
  MEDIA_NOT_AVAILABLE: 422,
  RESTORE_WINDOW_EXPIRED: 422,
  UPLOAD_INCOMPLETE: 422,
  UPLOAD_EXPIRED: 422,
  CHECKSUM_MISMATCH: 422,
  UNSUPPORTED_MEDIA: 422,
  IDEMPOTENCY_KEY_REUSED: 422,
  MFA_REQUIRED: 422,
  SESSION_NOT_REVOCABLE: 422,
  QUOTA_EXCEEDED: 422,
  RATE_LIMITED: 429,
  HEADERS_TOO_LARGE: 431,
  INTERNAL_ERROR: 500,
  SERVICE_UNAVAILABLE: 503,
  AUTH_UNAVAILABLE: 503,
  UPSTREAM_TIMEOUT: 504,
} as const satisfies Record<string, number>

export type ProblemCode = keyof typeof PROBLEMS

/** One issue of one field. `field` is a dotted path as the client wrote it, e.g. `body.filename`. */
export interface FieldIssue {
  field: string
  issue: string
  [extra: string]: unknown
}

export interface ProblemOptions extends ErrorOptions {
  details?: FieldIssue[]
  /** Seconds after which the client may retry; becomes `Retry-After` and `error.retry_after`. */
  retryAfter?: number
  /** Extra response headers, e.g. `WWW-Authenticate`, `Allow`. */
  headers?: Record<string, string>
  /** For a code with two statuses: FILE_TOO_LARGE is 413 for a body and 422 for a size that the body only names. */
  status?: 422
}

/**
 * The only error that reaches the caller as it is: `message` is for people, `code` for programs. Any other error is a
 * bug or an outage; it is logged in full and reaches the caller as INTERNAL_ERROR.
 */
export class Problem extends Error {
  override readonly name = 'Problem'
  readonly code: ProblemCode
  readonly details: FieldIssue[] | undefined
  readonly retryAfter: number | undefined
  readonly headers: Record<string, string> | undefined
  readonly status: number

  constructor(code: ProblemCode, message: string, options: ProblemOptions = {}) {
    super(message, options)
    this.code = code
    this.details = options.details
    this.retryAfter = options.retryAfter
    this.headers = options.headers
    this.status = options.status ?? PROBLEMS[code]
  }
}

/** With the field of the body that names what does not exist, if it is not the address. */
export const notFound = (field?: string) =>
  new Problem(
    'NOT_FOUND',
    'This address does not exist, or you do not have access to it',
    field === undefined ? {} : { details: [{ field, issue: 'does not exist' }] },
  )

export const invalid = (details: FieldIssue[]) =>
  new Problem('VALIDATION_ERROR', 'The request is not valid', { details })

/** The cause of a RATE_LIMITED that another service has said, in place of this server's own limits. */
export class Throttled extends Error {
  override readonly name = 'Throttled'
}
