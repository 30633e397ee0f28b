import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { simpleParser } from 'mailparser'
import t from 'tap'
import type { Outcome } from '../../../../api/features/notifications/channel.ts'
import { emailPart } from '../../../../api/features/notifications/email/channel.ts'
import type { Mail } from '../../../../api/features/notifications/email/mail.ts'
import { openSmtp } from '../../../../api/features/notifications/email/nodemailer.ts'
import { testDatabase } from '../../../support/database.ts'
import { eventually } from '../../../support/eventually.ts'
import { notificationWorld, notifying, wireId } from '../../../support/notifications.ts'
import { type Mood, type SmtpWorld, smtpServer } from '../../../support/smtp.ts'

/** E-mail through a real mail server, with TLS and a login. */
const database = await testDatabase(t)
const world = await notificationWorld(database)
const settings = {
  SMTP_REQUIRE_TLS: true,
  MAIL_FROM: { name: 'Keepsake', address: 'no-reply@keepsake.example' },
}

const server = await smtpServer(t)
const QUICK = { connectMs: 5000, silenceMs: 5000 }
const open = (t: Pick<typeof import('tap').t, 'teardown'>, o: Partial<Parameters<typeof openSmtp>[0]> = {}) => {
  const smtp = openSmtp({ url: server.url(), requireTls: true, ca: server.ca, most: 2, timeouts: QUICK, ...o })
  t.teardown(() => smtp.close())
  return smtp
}
const mail = (o: Partial<Mail> = {}): Mail => ({
  from: { name: 'Keepsake', address: 'no-reply@keepsake.example' },
  to: 'guest@example.org',
  subject: 'Hello',
  text: 'Hello',
  html: '<p>Hello</p>',
  messageId: '<ntf_1.email@keepsake.example>',
  headers: {},
  ...o,
})
const never = new AbortController().signal

t.test('one connection carries many mails, also after a refusal, and a closed one is replaced', async (t) => {
  const smtp = open(t)
  const before = server.sessions()
  t.strictSame(await smtp.deliver(mail(), never), { is: 'sent' })
  server.be('550')
  t.match(await smtp.deliver(mail(), never), { is: 'refused' })
  server.be('accept')
  t.strictSame(await smtp.deliver(mail(), never), { is: 'sent' })
  t.equal(server.sessions() - before, 1)
  server.hangUp()
  t.strictSame(await smtp.deliver(mail(), never), { is: 'sent' })
  t.equal(server.sessions() - before, 2)
})

const MOODS: [Mood, Outcome['is'], RegExp][] = [
  ['450', 'later', /EENVELOPE 450 4\.2\.0 at RCPT TO/],
  ['452', 'later', /EMESSAGE 452 at DATA/],
  ['550', 'refused', /EENVELOPE 550 5\.1\.1 at RCPT TO/],
  ['552', 'refused', /EMESSAGE 552 at DATA/],
  ['530', 'paused', /refuses the sender/],
  ['die', 'unknown', /no answer after the mail/],
  ['die-before-data', 'later', /before the mail/],
]
for (const [mood, is, reason] of MOODS) {
  t.test(`${mood} means ${is}, and the reason names no address`, async (t) => {
    const smtp = open(t)
    server.be(mood)
    const outcome = await smtp.deliver(mail(), never)
    server.be('accept')
    t.match(outcome, { is, reason })
    t.notMatch(JSON.stringify(outcome), /guest@/)
  })
}

t.test('a server that takes the mail and answers too late leaves the outcome unknown', async (t) => {
  const smtp = open(t, { timeouts: { ...QUICK, silenceMs: 3000 } })
  server.be('stall')
  t.match(await smtp.deliver(mail(), never), { is: 'unknown', reason: /ETIMEDOUT/ })
  const late = new AbortController()
  const patient = open(t)
  const arrived = server.received.length
  const attempt = patient.deliver(mail(), late.signal)
  await eventually('the mail', () => server.received.length > arrived)
  late.abort()
  t.match(await attempt, { is: 'unknown' })
  server.be('accept')
  server.answer()
})

const silent = createServer((socket: Socket) => socket.on('error', () => {}).end('554 no\r\n'))
await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
t.teardown(() => silent.close())
const stripped = await smtpServer(t, { starttls: false })
const BROKEN: [string, () => Partial<Parameters<typeof openSmtp>[0]>, RegExp][] = [
  ['a wrong password', () => ({ url: server.url({ password: 'x' }) }), /EAUTH 535/],
  ['an unknown authority', () => ({ ca: undefined }), /ESOCKET|ETLS/],
  ['a certificate for another name', () => ({ url: server.url().replace('127.0.0.1', 'localhost') }), /ESOCKET|ETLS/],
  ['STARTTLS removed on the way', () => ({ url: stripped.url(), ca: stripped.ca }), /STARTTLS/],
  ['a port where no server listens', () => ({ url: 'smtp://u:p@127.0.0.1:1' }), /ESOCKET|ECONNECTION/],
  [
    'a server that takes nobody',
    () => ({ url: `smtp://u:p@127.0.0.1:${(silent.address() as { port: number }).port}` }),
    /554/,
  ],
]
for (const [what, options, reason] of BROKEN) {
  t.test(`${what} pauses the channel, and no mail leaves`, async (t) => {
    const arrived = server.received.length + stripped.received.length
    t.match(await open(t, options()).deliver(mail(), never), { is: 'paused', reason })
    t.equal(server.received.length + stripped.received.length, arrived)
  })
}

t.test('TLS from the first byte', async (t) => {
  const tls = await smtpServer(t, { secure: true })
  t.strictSame(await open(t, { url: tls.url(), ca: tls.ca }).deliver(mail(), never), { is: 'sent' })
  t.equal(tls.received.length, 1)
})

t.test('no text of a person becomes a header or an address', async (t) => {
  const smtp = open(t)
  const evil = '\r\nBcc: evil@example.net\r\n\r\nX'
  await smtp.deliver(mail({ subject: `Hi${evil}`, from: { name: `M"${evil}`, address: 'a@keepsake.example' } }), never)
  const last = server.received.at(-1)
  t.strictSame(last?.to, ['guest@example.org'])
  const parsed = await simpleParser(last?.raw ?? '')
  t.equal(parsed.bcc, undefined)
})

const part = (at: SmtpWorld, silenceMs = 5000) =>
  emailPart(
    { settings: { ...settings, SMTP_URL: at.url() } },
    { ca: at.ca, timeouts: { ...QUICK, silenceMs }, schedule: [0] },
  )
const stateOf = (address: string, state: string) =>
  eventually(state, async () => (await world.deliveries(address)).find((row) => row.state === state))

t.test('an invitation becomes a mail that programs and people can read', async (t) => {
  const worker = notifying(t, database, [part(server)])
  const one = await world.invitation({ message: 'Bring <b>photos</b>!\nAnd cake.' })
  await world.consume(worker, [world.due(one)])
  const { notification_id: id } = await stateOf(one.email ?? '', 'sent')
  const raw = server.received.at(-1)?.raw ?? Buffer.alloc(0)
  t.strictSame(server.received.at(-1)?.to, [one.email])
  t.ok(raw.length < 100_000)
  t.ok(
    Math.max(
      ...raw
        .toString()
        .split('\r\n')
        .map((line) => line.length),
    ) <= 998,
  )
  const parsed = await simpleParser(raw)
  t.equal(parsed.subject, 'Mira invites you: Class reunion')
  t.equal(parsed.messageId, `<${wireId(id)}.email@keepsake.example>`)
  t.equal(parsed.headers.get('auto-submitted'), 'auto-generated')
  const list = parsed.headers.get('list') as unknown as Record<string, { url?: string; name?: string }>
  t.match(list['unsubscribe']?.url, /^https:\/\/api\.example\.org\/v1\/u\/k1\.0\.[0-9a-f]{64}\.[\w-]{22}$/)
  t.match(raw.toString(), /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r$/m)
  t.match(parsed.text, /Thursday,? 24 December 2026 at 18:30 CET/)
  t.match(parsed.text, /> Bring <b>photos<\/b>!\n> And cake\./)
  t.match(parsed.html, /Bring &lt;b&gt;photos&lt;\/b&gt;!<br>And cake\./)
  const link = new RegExp(`https://api\\.example\\.org/v1/e/c/${wireId(id)}#t=[\\w.-]+`)
  t.match(parsed.text, link)
  t.match(parsed.html, link)
})

t.test('a server that dies after the mail gets it once more, with the same Message-ID', async (t) => {
  const worker = notifying(t, database, [part(server)])
  const one = await world.invitation()
  const mine = () => server.received.filter(({ to }) => to[0] === one.email)
  server.be('die')
  await world.consume(worker, [world.due(one)])
  await eventually('the first', async () => (await world.deliveries(one.email ?? ''))[0]?.may_have_arrived)
  server.be('accept')
  await world.makeDue(one.email ?? '')
  worker.wake()
  await stateOf(one.email ?? '', 'sent')
  t.equal(mine().length, 2)
  const ids = await Promise.all(mine().map(async ({ raw }) => (await simpleParser(raw)).messageId))
  t.equal(new Set(ids).size, 1)
  server.be('die')
  const other = await world.invitation()
  await world.consume(worker, [world.due(other)])
  await eventually('the first', async () => (await world.deliveries(other.email ?? ''))[0]?.may_have_arrived)
  await world.makeDue(other.email ?? '')
  worker.wake()
  await stateOf(other.email ?? '', 'uncertain')
  server.be('accept')
  t.equal(server.received.filter(({ to }) => to[0] === other.email).length, 2)
})

t.test('an address that mail cannot be sent to is refused before the server hears of it', async (t) => {
  const worker = notifying(t, database, [part(server)])
  const user = await world.person({ email: 'a@example.org, evil@example.net' })
  const one = await world.invitation({ userId: user.id })
  const before = server.received.length
  await world.consume(worker, [world.due(one)])
  t.match(await stateOf(user.email, 'failed'), { reason: 'not an address that mail can be sent to' })
  t.equal(server.received.length, before)
})

t.test('on one machine the mail becomes a file, by the id of its notification', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-mail-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const worker = notifying(t, database, [emailPart({ settings: { ...settings, MAIL_FOLDER: join(folder, 'mail') } })])
  const one = await world.invitation()
  await world.consume(worker, [world.due(one)])
  const { notification_id: id } = await stateOf(one.email ?? '', 'sent')
  t.strictSame(await readdir(join(folder, 'mail')), [`${wireId(id)}.eml`])
  const parsed = await simpleParser(await readFile(join(folder, 'mail', `${wireId(id)}.eml`)))
  t.match(parsed, { subject: 'Mira invites you: Class reunion', to: { text: one.email } })
  await worker.stop()
  // A file where the folder should be.
  const full = notifying(t, database, [emailPart({ settings: { ...settings, MAIL_FOLDER: import.meta.filename } })])
  const other = await world.invitation()
  await world.consume(full, [world.due(other)])
  await eventually('the pause', async () => (await world.rowsOf('select reason from notification_channels'))[0]?.reason)
  t.match(await world.rowsOf('select reason from notification_channels'), [{ reason: /cannot be written/ }])
})
