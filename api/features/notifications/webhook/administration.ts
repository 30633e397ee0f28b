import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { Problem } from '../../../../lib/contract/problem.ts'
import { openGuard, RefusedAddress } from '../../../../lib/runtime/guarded-http/guarded-http.ts'
import { GuardSettings } from '../../../../lib/runtime/guarded-http/settings.ts'
import { newSecret } from '../../../../lib/runtime/standard-webhooks.ts'
import { insertAudit } from '../../../audit/queries.ts'
import { type Commands, idOf, type Session, textOf, UsageError } from '../../../command-line/command.ts'
import type { Database, Tx } from '../../../db/db.ts'
import {
  disableWebhook,
  enableWebhook,
  findWebhook,
  findWebhookOf,
  hasOrganization,
  pausedUntil,
  recordAttempt,
  replaceSecret,
  upsertWebhook,
  type WebhookRow,
} from './queries.ts'
import { post } from './send.ts'

const OVERLAP_HOURS = 24
const MAX_OVERLAP_HOURS = 24 * 30

/** Commands of administrators. Only `set` for a new webhook and `rotate` show a secret, once. */
export const webhookCommands: Commands = {
  'webhook set': {
    args: ['ORG', 'URL'],
    help: [
      'webhook set ORG URL',
      'tell a service of yours what people of the organization are notified of, or move it to another',
      'https:// address; shows the secret of a new one, which nothing shows again',
    ],
    run: (session, [org = '', url = '']) => set(session, idOf('organization', org), url),
  },
  'webhook show': {
    args: ['ORG'],
    help: [
      'webhook show ORG',
      'show the webhook of an organization, how its latest attempt ended, and how long it rests',
    ],
    async run({ db }, [org = '']) {
      return db.read({}, async (tx) => {
        const webhook = await webhookOf(tx, idOf('organization', org))
        return { ...shown(webhook), paused_until: (await pausedUntil(tx, webhook.id))?.toISOString() ?? null }
      })
    },
  },
  'webhook rotate': {
    args: ['ORG'],
    options: { overlap: 'string' },
    help: [
      'webhook rotate ORG [--overlap HOURS]',
      `replace the secret, and show the new one once; the earlier one signs too for HOURS (default ${OVERLAP_HOURS};`,
      '0 if it is in wrong hands)',
    ],
    async run({ db }, [org = ''], options) {
      const secret = newSecret()
      const overlapHours = hoursOf(textOf(options, 'overlap') ?? String(OVERLAP_HOURS))
      const change = (tx: Tx, orgId: Uuid) => replaceSecret(tx, orgId, { secret, overlapHours })
      return { ...shown(await changed(db, org, 'webhook_rotate', change)), secret }
    },
  },
  'webhook disable': {
    args: ['ORG'],
    help: ['webhook disable ORG', 'send nothing more to the webhook'],
    run: async ({ db }, [org = '']) =>
      shown(await changed(db, org, 'webhook_disable', (tx, orgId) => disableWebhook(tx, orgId, 'by an administrator'))),
  },
  'webhook enable': {
    args: ['ORG'],
    help: ['webhook enable ORG', 'send to the webhook again; what it missed: notifications retry'],
    run: async ({ db }, [org = '']) => shown(await changed(db, org, 'webhook_enable', enableWebhook)),
  },
  'webhook test': {
    args: ['ORG'],
    help: ['webhook test ORG', 'send a signed message of type Test.v1 from here, and show the answer'],
    run: (session, [org = '']) => test(session, idOf('organization', org)),
  },
}

/** Made once, and then only moved: two that run at the same time make one. */
async function set({ db, settings }: Session, orgId: Uuid, text: string): Promise<object> {
  const url = checked(text, settings(GuardSettings))
  const secret = newSecret()
  const webhook = await db.inTransaction({}, async (tx) => {
    if (!(await hasOrganization(tx, orgId))) throw new Problem('NOT_FOUND', 'The organization does not exist')
    const saved = await upsertWebhook(tx, { id: newUuid(), orgId, url, secret })
    await record(tx, orgId, 'webhook_set')
    return saved
  })
  return { ...shown(webhook), ...(webhook.secret === secret && { secret }) }
}

function checked(text: string, settings: GuardSettings): string {
  try {
    return openGuard(settings).check(text).href
  } catch (error) {
    if (error instanceof RefusedAddress) throw new Problem('VALIDATION_ERROR', `The address ${error.message}`)
    throw error
  }
}

async function test({ db, settings }: Session, orgId: Uuid): Promise<object> {
  const guard = openGuard(settings(GuardSettings))
  const webhook = await db.read({}, async (tx) => findWebhook(tx, (await webhookOf(tx, orgId)).id))
  if (!webhook) throw new Problem('NOT_FOUND', 'The organization has no webhook')
  const id = formatId('notification', newUuid())
  const data = { notification_id: id, org_id: formatId('organization', orgId) }
  const body = JSON.stringify({ type: 'Test.v1', timestamp: new Date().toISOString(), data })
  const { outcome, status, answer } = await post(guard, webhook, { id, body })
  const hasSucceeded = outcome.is === 'sent'
  await db.inTransaction({}, (tx) => recordAttempt(tx, webhook, { hasSucceeded, status, answer }))
  return { delivered: hasSucceeded, status, answer, reason: 'reason' in outcome ? outcome.reason : null }
}

async function webhookOf(tx: Tx, orgId: Uuid): Promise<WebhookRow> {
  const found = await findWebhookOf(tx, orgId)
  if (found) return found
  throw new Problem('NOT_FOUND', 'The organization has no webhook')
}

const changed = (db: Database, org: string, operation: string, change: (tx: Tx, orgId: Uuid) => Promise<boolean>) =>
  db.inTransaction({}, async (tx) => {
    const orgId = idOf('organization', org)
    if (await change(tx, orgId)) await record(tx, orgId, operation)
    return webhookOf(tx, orgId)
  })

const record = (tx: Tx, orgId: Uuid, operation: string) =>
  insertAudit(tx, {
    orgId,
    actorId: null,
    action: 'ADMIN_ACTION',
    resourceType: 'organization',
    resourceId: orgId,
    result: 'success',
    context: null,
    details: { operation },
  })

const shown = (row: WebhookRow) => ({
  webhook_id: formatId('webhook', row.id),
  org_id: formatId('organization', row.orgId),
  url: row.url,
  disabled_at: row.disabledAt?.toISOString() ?? null,
  disabled_reason: row.disabledReason,
  failing_since: row.failingSince?.toISOString() ?? null,
  previous_secret_ends_at: row.previousEndsAt?.toISOString() ?? null,
  last_attempt_at: row.lastAttemptAt?.toISOString() ?? null,
  last_status: row.lastStatus,
  last_answer: row.lastAnswer,
  created_at: row.createdAt.toISOString(),
})

function hoursOf(text: string): number {
  const hours = /^\d{1,4}$/.test(text) ? Number(text) : Number.NaN
  if (hours <= MAX_OVERLAP_HOURS) return hours
  throw new UsageError(`--overlap must be a number of hours from 0 to ${MAX_OVERLAP_HOURS}`)
}
