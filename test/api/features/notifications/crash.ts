import { simpleParser } from 'mailparser'
import t from 'tap'
import { emailPart } from '../../../../api/features/notifications/email/channel.ts'
import { testStore } from '../../../support/conversion-world.ts'
import { testDatabase } from '../../../support/database.ts'
import { eventually } from '../../../support/eventually.ts'
import { LINK_KEYS, notificationWorld, notifying, scriptedChannel } from '../../../support/notifications.ts'
import { smtpServer } from '../../../support/smtp.ts'
import { dyingWorkers } from '../../../support/worker-process.ts'

// The worker as it runs in a pod, killed while it sends a mail; Postgres and the mail server live on.
const database = await testDatabase(t)
const { start, died } = await dyingWorkers(t, database, await testStore(t), 'notifications')
const world = await notificationWorld(database)
const server = await smtpServer(t)
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
