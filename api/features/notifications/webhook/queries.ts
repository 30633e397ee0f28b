import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { and, eq, inArray, sql } from '../../../db/orm.ts'
import { notificationPauses, notifications } from '../../../db/schema/notifications.ts'
import { organizations } from '../../../db/schema/organizations.ts'
import { type WebhookRow, webhooks } from '../../../db/schema/webhooks.ts'
import type { Addressed } from '../channel.ts'

export type { WebhookRow } from '../../../db/schema/webhooks.ts'

/** After failing this long without one success, a webhook is disabled. */
const FAILING_DAYS = 5

/** Also disabled ones: what they miss is suppressed, and an administrator can send it when they are enabled again. */
export const webhooksOf = (tx: Tx, notificationIds: readonly Uuid[]): Promise<Addressed[]> =>
  tx
    .select({ notificationId: notifications.id, destination: sql<string>`${webhooks.id}::text` })
    .from(notifications)
    .innerJoin(webhooks, eq(webhooks.orgId, notifications.orgId))
    .where(inArray(notifications.id, [...notificationIds]))

/** With the secrets that sign at this moment, the newest first. */
export async function findWebhook(tx: Tx, id: Uuid): Promise<(WebhookRow & { secrets: string[] }) | undefined> {
  const [found] = await tx
    .select({ row: webhooks, rotates: sql<boolean>`coalesce(${webhooks.previousEndsAt} > now(), false)` })
    .from(webhooks)
    .where(eq(webhooks.id, id))
  if (!found) return undefined
  const { row, rotates } = found
  return { ...row, secrets: [row.secret, ...(rotates ? (row.previousSecret?.split(' ') ?? []) : [])] }
}

export interface AttemptResult {
  hasSucceeded: boolean
  status: number | null
  answer: string | null
  /** Why the webhook is disabled by it. */
  disables?: string | undefined
}

/** Unless the webhook has another URL meanwhile: what the earlier one did says nothing about it. */
export async function recordAttempt(
  tx: Tx,
  { id, url }: Pick<WebhookRow, 'id' | 'url'>,
  { hasSucceeded, status, answer, disables }: AttemptResult,
): Promise<void> {
  const w = webhooks
  // Longer than any pause between two attempts of a delivery: nothing was sent meanwhile, which says nothing of the webhook.
  const isRecent = sql`${w.lastAttemptAt} > now() - interval '1 day'`
  const failsForGood = sql`${isRecent} and ${w.failingSince} < now() - make_interval(days => ${FAILING_DAYS})`
  const why = disables ?? `every attempt has failed for ${FAILING_DAYS} days`
  const isOver =
    disables === undefined ? sql`${w.disabledAt} is null and ${failsForGood}` : sql`${w.disabledAt} is null`
  const failure = {
    failingSince: sql`case when ${isRecent} then coalesce(${w.failingSince}, now()) else now() end`,
    disabledAt: sql`case when ${isOver} then now() else ${w.disabledAt} end`,
    disabledReason: sql`case when ${isOver} then ${why} else ${w.disabledReason} end`,
  }
  await tx
    .update(w)
    .set({
      lastAttemptAt: sql`now()`,
      lastStatus: status,
      lastAnswer: answer,
      ...(hasSucceeded ? { failingSince: null } : failure),
    })
    .where(and(eq(w.id, id), eq(w.url, url)))
}

export const hasOrganization = async (tx: Tx, orgId: Uuid): Promise<boolean> =>
  (await tx.$count(organizations, eq(organizations.id, orgId))) > 0

export async function findWebhookOf(tx: Tx, orgId: Uuid): Promise<WebhookRow | undefined> {
  const [row] = await tx.select().from(webhooks).where(eq(webhooks.orgId, orgId))
  return row
}

/** The webhook of the organization with this URL, enabled; `secret` is for a new one. */
export async function upsertWebhook(
  tx: Tx,
  row: Pick<WebhookRow, 'id' | 'orgId' | 'url' | 'secret'>,
): Promise<WebhookRow> {
  const [saved] = await tx
    .insert(webhooks)
    .values(row)
    .onConflictDoUpdate({ target: webhooks.orgId, set: { url: row.url, ...ENABLED } })
    .returning()
  if (!saved) throw new Error('no webhook was saved')
  await endPause(tx, row.orgId)
  return saved
}
const ENABLED = { disabledAt: null, disabledReason: null, failingSince: null } as const

type Changes = Parameters<ReturnType<typeof update>['set']>[0]
const update = (tx: Tx) => tx.update(webhooks)
const changeOf = async (tx: Tx, orgId: Uuid, set: Changes): Promise<boolean> =>
  ((await update(tx).set(set).where(eq(webhooks.orgId, orgId))).rowCount ?? 0) > 0

/**
 * The earlier secret signs too for `overlapHours`. So do those before it, while they still sign: the receiver may have any of
 * them. Four at most, each being a signature of every request; the receiver least probably has one in between.
 * Returns whether there is a webhook.
 */
export const replaceSecret = (tx: Tx, orgId: Uuid, o: { secret: string; overlapHours: number }): Promise<boolean> =>
  changeOf(tx, orgId, {
    secret: o.secret,
    previousSecret: sql`case when not coalesce(${signsStill(o)}, false) then ${webhooks.secret}
      when cardinality(${EARLIER}) <= 4 then array_to_string(${EARLIER}, ' ')
      else array_to_string((${EARLIER})[:2] || (${EARLIER})[4:], ' ') end`,
    previousEndsAt: sql`case when ${signsStill(o)} then greatest(${webhooks.previousEndsAt}, ${inHours(o)}) else ${inHours(o)} end`,
  })

/** The newest first. */
const EARLIER = sql`string_to_array(${webhooks.secret} || ' ' || ${webhooks.previousSecret}, ' ')`
const inHours = ({ overlapHours }: { overlapHours: number }) => sql`now() + make_interval(hours => ${overlapHours})`
const signsStill = ({ overlapHours }: { overlapHours: number }) =>
  sql`(${webhooks.previousEndsAt} > now() and ${overlapHours}::integer > 0)`

export async function enableWebhook(tx: Tx, orgId: Uuid): Promise<boolean> {
  await endPause(tx, orgId)
  return changeOf(tx, orgId, ENABLED)
}

/** What failed before is not held against it. Its deliveries that wait for the end of the pause are due. */
async function endPause(tx: Tx, orgId: Uuid): Promise<void> {
  const its = tx
    .select({ id: sql`${webhooks.id}::text` })
    .from(webhooks)
    .where(eq(webhooks.orgId, orgId))
  await tx.execute(sql`
    update notification_deliveries set updated_at = now(), next_attempt_at = now()
      where id = any(array(select d.id from notification_deliveries d
        join notification_pauses p on p.channel = d.channel and p.receiver = d.destination
        where d.channel = 'webhook' and d.state = 'pending' and d.destination in ${its}
          and d.next_attempt_at > now() and d.next_attempt_at <= p.paused_until
        for update of d skip locked))`)
  await tx
    .delete(notificationPauses)
    .where(and(eq(notificationPauses.channel, 'webhook'), inArray(notificationPauses.receiver, its)))
}

/** Until when the webhook gets nothing because it failed; null while it does. */
export async function pausedUntil(tx: Tx, id: Uuid): Promise<Date | null> {
  const p = notificationPauses
  const [row] = await tx
    .select({ until: p.pausedUntil })
    .from(p)
    .where(and(eq(p.channel, 'webhook'), eq(p.receiver, id), sql`${p.pausedUntil} > now()`))
  return row?.until ?? null
}

/** An earlier reason stays. */
export const disableWebhook = (tx: Tx, orgId: Uuid, reason: string): Promise<boolean> =>
  changeOf(tx, orgId, {
    disabledAt: sql`coalesce(${webhooks.disabledAt}, now())`,
    disabledReason: sql`coalesce(${webhooks.disabledReason}, ${reason})`,
  })
