import * as z from 'zod'
import { type Answer, type Guard, retryAfterSeconds } from '../../../../lib/runtime/guarded-http/guarded-http.ts'
import type { Outcome } from '../channel.ts'
import { type AccessTokens, accessTokens, parsed } from './access-token.ts'
import type { PushMessage } from './message.ts'
import type { ServiceAccount } from './settings.ts'

export const FCM_ORIGIN = 'https://fcm.googleapis.com'

/** Sends a message to an app through FCM (HTTP v1, https://firebase.google.com/docs/reference/fcm/rest/v1). */
export function fcmSender(guard: Guard, account: ServiceAccount, origin: string = FCM_ORIGIN) {
  const tokens = accessTokens(guard, account)
  const url = `${origin}/v1/projects/${encodeURIComponent(account.project_id)}/messages:send`

  async function ask(message: PushMessage, device: string, signal: AbortSignal): Promise<Answer> {
    const body = JSON.stringify({ message: fcmMessage(message, device) })
    for (let tried = 1; ; tried++) {
      const token = await tokens.get()
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` }
      const answer = await guard.ask(url, { method: 'POST', headers, body, signal })
      if (answer.status !== 401 || tried === 2) return answer
      // Ended early, as after a change of the key.
      tokens.forget(token)
    }
  }

  return async (message: PushMessage, device: string, signal: AbortSignal): Promise<Outcome> => {
    const answer = await ask(message, device, signal)
    return outcomeOf(answer.status, parsed(answer.body), retryAfterSeconds(answer.headers))
  }
}
export type { AccessTokens }

function fcmMessage({ title, body, data, topic, ttl }: PushMessage, token: string) {
  const expires = Math.floor(Date.now() / 1000) + ttl
  return {
    token,
    notification: { title, body },
    data,
    android: { collapse_key: topic, ttl: `${ttl}s`, priority: 'HIGH' },
    apns: { headers: { 'apns-collapse-id': topic, 'apns-expiration': String(expires), 'apns-priority': '10' } },
  }
}

const Detail = z.object({
  '@type': z.string(),
  errorCode: z.string().optional(),
  fieldViolations: z.array(z.object({ field: z.string().optional() })).optional(),
})
const Failed = z.object({ error: z.object({ details: z.array(z.unknown()).default([]) }) })

const GONE = ['UNREGISTERED', 'SENDER_ID_MISMATCH']

/** What the answer of FCM means. `body`: undefined for what is no JSON. Exported for its test. */
export function outcomeOf(status: number, body: unknown, afterSeconds: number | undefined): Outcome {
  if (status === 200) return { is: 'sent' }
  const given = Failed.safeParse(body)
  const details = (given.success ? given.data.error.details : []).flatMap((one) => Detail.safeParse(one).data ?? [])
  const code = details.find((one) => one['@type'].endsWith('.FcmError'))?.errorCode
  const reason = ['FCM answered', status, code].filter((part) => part !== undefined).join(' ')
  if (code !== undefined && GONE.includes(code)) return { is: 'gone', reason }
  const isTokenWrong = details.some((one) => one.fieldViolations?.some(({ field }) => field === 'message.token'))
  if (status === 400 && isTokenWrong) return { is: 'gone', reason }
  // 401 after a new access token: the key is wrong. Not the whole channel rests, which has browsers as well.
  if (status === 401 || status === 429 || status >= 500) {
    const isOurs = status === 401 && { isOurs: true as const }
    return { is: 'later', of: 'service', reason, ...isOurs, ...(afterSeconds !== undefined && { afterSeconds }) }
  }
  return { is: 'refused', reason }
}
