import { EXIT } from '../../lib/contract/job-result.ts'
import { StoreError } from '../../lib/runtime/object-store/object-store.ts'

/** Another attempt cannot help. `code` is one of 10 to 13; the uploader is shown `reason` and `message`. */
export class PermanentError extends Error {
  override readonly name = 'PermanentError'
  readonly code: number
  readonly reason: string
  constructor(code: number, reason: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    this.reason = reason
  }
}

/** Another attempt may help. `code` is one of 20 to 30. */
export class TransientError extends Error {
  override readonly name = 'TransientError'
  readonly code: number
  readonly reason: string
  constructor(code: number, reason: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    this.reason = reason
  }
}

/** The upload itself is at fault. */
export const badInput = (reason: string, message: string, options?: ErrorOptions) =>
  new PermanentError(EXIT.inputBad, reason, message, options)

export interface Failure {
  code: number
  reason: string
  message: string
  permanent: boolean
}

/**
 * Classifies an error as permanent or transient. Only a PermanentError blames the input or the specification. Anything
 * unknown (a missing binary, a bug, an outage) is retried, so that a fault of the platform never fails an upload for
 * good.
 */
export function failureOf(error: unknown): Failure {
  const message = (error instanceof Error ? error.message : String(error)).slice(0, 512)
  if (error instanceof PermanentError) return { code: error.code, reason: error.reason, message, permanent: true }
  const transient = (code: number, reason: string): Failure => ({ code, reason, message, permanent: false })
  if (isOutOfSpace(error)) return transient(EXIT.noSpace, 'NoSpace')
  if (error instanceof TransientError) return transient(error.code, error.reason)
  if (error instanceof StoreError) {
    return transient(EXIT.transient, error.code === 'BadConfiguration' ? 'BadConfiguration' : 'StoreUnavailable')
  }
  return transient(EXIT.transient, 'Internal')
}

function isOutOfSpace(error: unknown): boolean {
  for (let e = error, depth = 0; e instanceof Error && depth < 8; e = e.cause, depth++) {
    const code = (e as NodeJS.ErrnoException).code
    if (code === 'ENOSPC' || code === 'EDQUOT') return true
  }
  return false
}
