import { createHmac, timingSafeEqual } from 'node:crypto'
import * as z from 'zod'

/**
 * The body that a running pod posts to the operator's `/progress`. `percent` covers all inputs; `speed` is media
 * seconds per second.
 */
export const ProgressReport = z.object({
  percent: z.number().min(0).max(100),
  speed: z.number().min(0).nullable(),
  etaSeconds: z.int().min(0).nullable(),
  stage: z.enum(['Downloading', 'Probing', 'Encoding', 'Verifying', 'Publishing']),
  accelerator: z.enum(['gpu', 'cpu']).optional(),
  acceleratorReason: z.string().max(256).optional(),
  /** How the latest video is encoded, and why. */
  planReason: z.string().max(256).optional(),
  /** Ids of inputs that can already be played; grows, never shrinks. */
  playable: z.array(z.string().max(64)).max(64).optional(),
})
export type ProgressReport = z.infer<typeof ProgressReport>

/** The Job of a report. `uid` is the custom resource's: a re-created one refuses its predecessor's token. */
export interface ProgressSubject {
  kind: 'TranscodeJob' | 'HighlightRender'
  namespace: string
  name: string
  uid: string
  jobName: string
}

/**
 * A bearer token that permits only to report progress for one Job. `base64url(subject).base64url(hmac-sha256)`. The
 * Job's own uid is unknown before its creation, so the token is bound to the Job's fixed name and its owner's uid.
 */
export function progressToken(key: string, subject: ProgressSubject): string {
  const body = Buffer.from(JSON.stringify(subject)).toString('base64url')
  return `${body}.${mac(key, body).toString('base64url')}`
}

export function verifyProgressToken(key: string, token: string): ProgressSubject | undefined {
  const [body, sig] = token.split('.')
  if (!body || !sig) return undefined
  const want = mac(key, body)
  const got = Buffer.from(sig, 'base64url')
  if (got.length !== want.length || !timingSafeEqual(got, want)) return undefined
  return JSON.parse(Buffer.from(body, 'base64url').toString()) as ProgressSubject
}

const mac = (key: string, body: string) => createHmac('sha256', key).update(`keepsake-progress.${body}`).digest()
