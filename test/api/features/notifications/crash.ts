import { simpleParser } from 'mailparser'
import t from 'tap'
import { emailPart } from '../../../../api/features/notifications/email/channel.ts'
import { webhookPart } from '../../../../api/features/notifications/webhook/channel.ts'
import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { newSecret } from '../../../../lib/runtime/standard-webhooks.ts'
import { testStore } from '../../../support/conversion-world.ts'
import { testDatabase } from '../../../support/database.ts'
import { eventually } from '../../../support/eventually.ts'
import { httpsReceiver } from '../../../support/https-receiver.ts'
import { LINK_KEYS, notificationWorld, notifying, scriptedChannel } from '../../../support/notifications.ts'
import { quietLog } from '../../../support/quiet-log.ts'
import { smtpServer } from '../../../support/smtp.ts'
import { dyingWorkers } from '../../../support/worker-process.ts'

// The worker as it runs in a pod, killed while it sends a mail; Postgres and the mail server live on.
const database = await testDatabase(t)
const { start, died } = await dyingWorkers(t, database, await testStore(t), 'notifications')
const world = await notificationWorld(database)
const server = await smtpServer(t)
const receiver = await httpsReceiver(t)
const from = { name: 'Keepsake', address: 'no-reply@keepsake.example' }
const environment = {
  PUBLIC_URL: 'https://api.example.org',
  LINK_KEYS: JSON.stringify(LINK_KEYS),
  SMTP_URL: server.url(),
  MAIL_FROM: `${from.name} <${from.address}>`,
  NODE_EXTRA_CA_CERTS: server.caFile,
}
const settings = { SMTP_URL: server.url(), SMTP_REQUIRE_TLS: true, MAIL_FROM: from }
const idsOf = async (email: string) => {
  const mine = server.received.filter(({ to }) => to[0] === email)
  return Promise.all(mine.map(async ({ raw }) => (await simpleParser(raw)).messageId))
}

async function anInvitation(): Promise<string> {
  const idle = notifying(t, database, [scriptedChannel(() => ({ is: 'sent' })).part])
  await idle.stop()
  const one = await world.invitation()
  await world.consume(idle, [world.due(one)])
  return one.email ?? ''
}
/** As if the lease of the dead worker had ended. */
const endLease = (email: string) => world.makeDue(email)
const settled = (email: string) =>
  eventually('an end', async () => {
    const [row] = await world.deliveries(email)
    return row.state === 'pending' || row.state === 'sending' ? undefined : row
  })

t.test('killed before the mail leaves: the next worker sends it', async (t) => {
  const email = await anInvitation()
  await died(t, start(t, { ...environment, KEEPSAKE_FAILPOINT: 'notification.sending' }))
  t.match(await world.deliveries(email), [{ state: 'sending', attempts: 1 }])
  t.strictSame(await idsOf(email), [])
  await endLease(email)
  notifying(t, database, [emailPart({ settings }, { ca: server.ca })])
  t.match(await settled(email), { state: 'sent', attempts: 2 })
  t.equal((await idsOf(email)).length, 1)
})

t.test('killed after the mail has left: one more copy with the same Message-ID, and never a third', async (t) => {
  const email = await anInvitation()
  for (const copies of [1, 2]) {
    await died(t, start(t, { ...environment, KEEPSAKE_FAILPOINT: 'notification.sent' }))
    const ids = await idsOf(email)
    t.equal(ids.length, copies)
    t.equal(new Set(ids).size, 1)
    await endLease(email)
  }
  const worker = notifying(t, database, [emailPart({ settings }, { ca: server.ca })])
  worker.wake()
  t.match(await settled(email), { state: 'uncertain', attempts: 2 })
  t.equal((await idsOf(email)).length, 2)
})

t.test('killed twice after a webhook was told: it is told again, by the same name', async (t) => {
  const [webhook, secret] = [newUuid(), newSecret()]
  await world.rowsOf('insert into webhooks (id, org_id, url, secret) values ($1, $2, $3, $4)', [
    ...[webhook, world.orgId, receiver.url('/hook'), secret],
  ])
  const part = () =>
    webhookPart({ settings: receiver.settings, db: database.worker, log: quietLog() }, { ca: receiver.ca })
  const idle = notifying(t, database, [part()])
  await idle.stop()
  await world.consume(idle, [world.due(await world.invitation({ phone: '+4915112345678' }))])
  for (const attempts of [1, 2]) {
    const { PUBLIC_URL, LINK_KEYS } = environment
    const outbound = { OUTBOUND_ALLOWED_ADDRESSES: '127.0.0.1/32', OUTBOUND_PORTS: `${receiver.port}` }
    const trust = { NODE_EXTRA_CA_CERTS: receiver.caFile }
    const dying = { PUBLIC_URL, LINK_KEYS, ...outbound, ...trust, KEEPSAKE_FAILPOINT: 'notification.sent' }
    await died(t, start(t, dying))
    t.match(await world.deliveries(webhook), [{ state: 'sending', attempts }])
    await endLease(webhook)
  }
  const worker = notifying(t, database, [part()])
  const pending = await eventually('the end of the lease', async () =>
    (await world.deliveries(webhook)).find(({ state }) => state === 'pending'),
  )
  t.match(pending, { attempts: 2, may_have_arrived: true })
  // As if the time of the schedule had passed.
  await endLease(webhook)
  worker.wake()
  t.match(await settled(webhook), { state: 'sent', attempts: 3 })
  const name = formatId('notification', pending.notification_id)
  t.strictSame(
    receiver.received.map(({ path, headers }) => [path, headers['webhook-id']]),
    Array(3).fill(['/hook', name]),
  )
})
