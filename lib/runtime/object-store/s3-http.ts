import { type Errors, openConnections } from './http.ts'
import { StoreError, type StoreErrorCode } from './object-store.ts'

/**
 * The connections to an S3 endpoint. The minio client would hold a whole part in memory and has no timeout, so it only
 * signs, and the bytes go through these connections.
 */
export const openS3Connections = (endpoint: URL, options: { idleMs: number; ca?: string | undefined }) =>
  openConnections(endpoint, { ...options, errors: { ofConnection: asStoreError, ofAnswer: refusal } })

const refusal: Errors['ofAnswer'] = (status, xml) => {
  const code = /<Code>([^<]{1,100})</.exec(xml)?.[1] ?? `HTTP ${status}`
  return new S3Refusal(code, /<Message>([^<]{1,500})</.exec(xml)?.[1] ?? '', { status })
}

const CODES: Record<string, StoreErrorCode> = {
  NoSuchKey: 'NotFound',
  NoSuchUpload: 'NotFound',
  NotFound: 'NotFound',
  'HTTP 404': 'NotFound',
  InvalidPart: 'InvalidPart',
  InvalidPartOrder: 'InvalidPart',
  BadDigest: 'BadDigest',
  InvalidDigest: 'BadDigest',
  IncompleteBody: 'IncompleteBody',
  EntityTooSmall: 'EntityTooSmall',
  PreconditionFailed: 'Changed',
}

/** The server works and wants fewer requests. 503 without a code may be a server that is down. */
const SLOW_DOWN = /^(SlowDown(Read|Write)?|TooManyRequests|RequestLimitExceeded|HTTP 429)$/

/** An error answer with the server's code. Those for an administrator (keys, bucket, clock) are Unavailable too. */
export class S3Refusal extends StoreError {
  readonly s3Code: string
  readonly status: number | undefined
  constructor(s3Code: string, message: string, options: ErrorOptions & { status?: number } = {}) {
    const { status, ...rest } = options
    const isSlowDown = SLOW_DOWN.test(s3Code) || status === 429
    super(CODES[s3Code] ?? 'Unavailable', `The object store answered ${s3Code}. ${message}`.trim(), {
      ...rest,
      isSlowDown,
    })
    this.s3Code = s3Code
    this.status = status
  }
}

/** The server's certificate was not accepted, so no request was sent. Only an administrator can fix that. */
class CertificateError extends StoreError {
  constructor(code: string, message: string, options: ErrorOptions) {
    const hint = UNKNOWN_ISSUER.test(code) ? '. S3_CA must hold the certificate of the authority that signed it' : ''
    super('Unavailable', `The object store's certificate is not accepted: ${message} (${code})${hint}`, options)
  }
}

/** Certificate error codes of OpenSSL and Node, including Node's UNSPECIFIED. S3's codes are in mixed case. */
const CERTIFICATE_CODE =
  /^(ERR_TLS_CERT_\w+|CERT_\w+|UNABLE_TO_\w+|(DEPTH_ZERO_)?SELF_SIGNED_CERT\w*|INVALID_(CA|PURPOSE)|PATH_LENGTH_EXCEEDED|HOSTNAME_MISMATCH|CRL_\w+|ERROR_IN_C\w+|UNSPECIFIED)$/
const UNKNOWN_ISSUER = /^(UNABLE_TO_(VERIFY|GET_ISSUER)_\w+|(DEPTH_ZERO_)?SELF_SIGNED_CERT\w*|CERT_SIGNATURE_FAILURE)$/

/** Node's advice about its command line, which administrators of this product cannot follow. */
const ADVICE = /; if the root CA is installed locally.*$/s

/** Codes of the operating system, e.g. ECONNRESET. */
const SYSTEM_CODE = /^E[A-Z_]+$/

export function asStoreError(error: unknown): StoreError {
  if (error instanceof StoreError) return error
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const message = error instanceof Error ? error.message : String(error)
  if (CERTIFICATE_CODE.test(code)) return new CertificateError(code, message.replace(ADVICE, ''), { cause: error })
  return code === '' || SYSTEM_CODE.test(code)
    ? new StoreError('Unavailable', `The object store: ${code} ${message}`, { cause: error })
    : new S3Refusal(code, message, { cause: error })
}

const PASSING =
  /^(SlowDown|InternalError|ServiceUnavailable|RequestTimeout|OperationAborted|ConcurrentModification|TooManyRequests|HTTP (429|5\d\d))$/

/** Whether a retry of the same request may succeed. */
export const mayPass = (error: StoreError) =>
  error.code === 'Unavailable' &&
  !(error instanceof CertificateError) &&
  (!(error instanceof S3Refusal) || PASSING.test(error.s3Code) || isFailure(error.status))

/** Ceph has codes of its own for what went wrong in it. 501 is a request that it will never know. */
const isFailure = (status = 0) => status >= 500 && status !== 501
