import { ClusterError, type ClusterErrorReason } from './cluster.ts'

/** `kind: Status`, the API server's answer to a failed request and the `object` of an ERROR event. */
export interface KubeStatus {
  kind?: string
  reason?: string
  code?: number
  message?: string
  details?: { retryAfterSeconds?: number }
}

const BY_REASON: Record<string, ClusterErrorReason> = {
  NotFound: 'NotFound',
  AlreadyExists: 'AlreadyExists',
  Conflict: 'Conflict',
  Invalid: 'Invalid',
  BadRequest: 'Invalid',
  UnsupportedMediaType: 'Invalid',
  RequestEntityTooLarge: 'Invalid',
  Forbidden: 'Forbidden',
  Unauthorized: 'Forbidden',
  Gone: 'Gone',
  Expired: 'Gone',
  TooManyRequests: 'TooManyRequests',
}
const BY_CODE: Record<number, ClusterErrorReason> = {
  400: 'Invalid',
  401: 'Forbidden',
  403: 'Forbidden',
  409: 'Conflict',
  410: 'Gone',
  413: 'Invalid',
  415: 'Invalid',
  422: 'Invalid',
  429: 'TooManyRequests',
}

/**
 * Classifies a failed answer. A 404 counts as NotFound only with a Status: a plain "404 page not found" means that the
 * server does not serve the kind (its CRD is missing), which must never be mistaken for a deleted object.
 */
export function clusterErrorOf(code: number, status: KubeStatus | undefined, retryAfter?: number): ClusterError {
  const reason = BY_REASON[status?.reason ?? ''] ?? BY_CODE[code] ?? 'Unavailable'
  const retryAfterSeconds = retryAfter ?? status?.details?.retryAfterSeconds
  const message = status?.message ?? (code === 404 ? 'The API server does not serve this resource' : `HTTP ${code}`)
  return new ClusterError(reason, message, {
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    isNotServed: code === 404 && reason === 'Unavailable',
  })
}

export function parseStatus(text: string): KubeStatus | undefined {
  try {
    const value = JSON.parse(text) as KubeStatus
    return value?.kind === 'Status' ? value : undefined
  } catch {
    return undefined
  }
}

/** Any failure below HTTP. */
export const unreachable = (cause: unknown): ClusterError => {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause
  const text = inner instanceof Error ? inner.message : String(inner)
  return new ClusterError('Unavailable', `The API server cannot be reached: ${text}`, { cause })
}
