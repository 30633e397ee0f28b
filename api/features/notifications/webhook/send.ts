import {
  type Answer,
  type Guard,
  RefusedAddress,
  retryAfterSeconds,
} from '../../../../lib/runtime/guarded-http/guarded-http.ts'
import { signedHeaders } from '../../../../lib/runtime/standard-webhooks.ts'
import type { Outcome } from '../channel.ts'
import { outcomeOf } from './answer-plan.ts'

const SECONDS = 15
const MAX_KEPT = 1024

export interface Attempted {
  outcome: Outcome
  status: number | null
  /** The beginning of the answer; null without one. */
  answer: string | null
}

/** One signed POST. Every failure is an outcome: receivers tell repetitions apart by `webhook-id`. */
export async function post(
  guard: Guard,
  { url, secrets }: { url: string; secrets: readonly string[] },
  { id, body, signal }: { id: string; body: string; signal?: AbortSignal },
): Promise<Attempted> {
  const headers = { 'content-type': 'application/json', ...signedHeaders(secrets, { id, body }) }
  try {
    const answer = await guard.ask(url, { method: 'POST', headers, body, seconds: SECONDS, ...(signal && { signal }) })
    const outcome = outcomeOf(answer.status, retryAfterSeconds(answer.headers))
    return { outcome, status: answer.status, answer: keptOf(answer) }
  } catch (error) {
    return { outcome: { is: 'later', of: 'destination', reason: reasonOf(error) }, status: null, answer: null }
  }
}

/** At most 1 KiB, as text that Postgres takes. */
const keptOf = ({ body }: Answer): string =>
  body.subarray(0, MAX_KEPT).toString('utf8').replaceAll('\0', '').toWellFormed().slice(0, MAX_KEPT)

/** For administrators. The messages of network errors name the address, codes do not. */
function reasonOf(error: unknown): string {
  if (error instanceof RefusedAddress) return `the address of the webhook ${error.message}`
  const code = (error as { code?: unknown }).code
  if (typeof code === 'string') return `the receiver could not be reached: ${code}`
  return error instanceof Error ? error.message.slice(0, 200) : 'the receiver could not be reached'
}
