import { formatId } from '../../../../lib/contract/ids.ts'
import { type GuardOptions, openGuard } from '../../../../lib/runtime/guarded-http/guarded-http.ts'
import type { GuardSettings } from '../../../../lib/runtime/guarded-http/settings.ts'
import { type ChannelDeps, type ChannelPart, notRead } from '../channel.ts'
import { payloadOf } from './payload.ts'
import { type AttemptResult, findWebhook, recordAttempt, type WebhookRow, webhooksOf } from './queries.ts'
import { post } from './send.ts'

/** Five seconds to ten hours, more than a day in all. */
const SCHEDULE = [5, 300, 1800, 7200, 18_000, 36_000, 36_000]
const CONCURRENCY = 8

/** A signed POST to the service that the installation's administrators have named for the organization. */
export function webhookPart(
  { settings, db, log }: Pick<ChannelDeps<GuardSettings>, 'settings' | 'db' | 'log'>,
  { schedule = SCHEDULE, ...options }: GuardOptions & { schedule?: readonly number[] } = {},
): ChannelPart {
  const guard = openGuard(settings, options)

  /** What the receiver has answered holds, also where it cannot be recorded. */
  const record = (webhook: WebhookRow, result: AttemptResult): Promise<void> =>
    db
      .inTransaction({}, (tx) => recordAttempt(tx, webhook, result))
      .catch((error: unknown) => log.warn({ err: error, webhook: webhook.id }, 'could not record what a webhook said'))

  return {
    name: 'webhook',
    offReason: 'never',
    destinationsOf: webhooksOf,
    async withhold(tx, _, id) {
      const webhook = await findWebhook(tx, id)
      if (!webhook) return 'the organization has no webhook any more'
      return webhook.disabledAt === null ? undefined : 'the webhook is disabled'
    },
    channel: {
      name: 'webhook',
      schedule,
      // A receiver knows a repetition by its `webhook-id`.
      isIdempotent: true,
      concurrency: CONCURRENCY,
      async send(message, { address: id }, signal) {
        // As it is now: the secret may have been replaced between two attempts.
        const webhook = await db.read({}, (tx) => findWebhook(tx, id)).catch(notRead)
        if (!webhook) return { is: 'refused', reason: 'the organization has no webhook any more' }
        if ('is' in webhook) return webhook
        const sent = { id: formatId('notification', message.id), body: payloadOf(message), signal }
        const { outcome, status, answer } = await post(guard, webhook, sent)
        const disables = outcome.is === 'gone' ? outcome.reason : undefined
        const result = { hasSucceeded: outcome.is === 'sent', status, answer, disables }
        await record(webhook, result)
        return outcome
      },
    },
  }
}
