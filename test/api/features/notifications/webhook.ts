import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { outcomeOf } from '../../../../api/features/notifications/webhook/answer-plan.ts'
import { webhookPart } from '../../../../api/features/notifications/webhook/channel.ts'
import { formatId } from '../../../../lib/contract/ids.ts'
import { newSecret, signedHeaders } from '../../../../lib/runtime/standard-webhooks.ts'
import { uuidOf } from '../../../support/api.ts'
import { commandLine } from '../../../support/command-line.ts'
import { testDatabase } from '../../../support/database.ts'
import { eventually } from '../../../support/eventually.ts'
import { httpsReceiver, type Received } from '../../../support/https-receiver.ts'
import { notificationWorld, notifying } from '../../../support/notifications.ts'
import { quietLog } from '../../../support/quiet-log.ts'

const database = await testDatabase(t)
const receiver = await httpsReceiver(t)
const { settings, ca } = receiver
const env = {
  DATABASE_URL: database.url,
  OUTBOUND_ALLOWED_ADDRESSES: '127.0.0.1/32',
  OUTBOUND_PORTS: `443,${receiver.port}`,
}
const parts = (schedule = [0, 0], db = database.worker) => [
  webhookPart({ settings, db, log: quietLog() }, { ca, schedule }),
]

t.test('the signature is that of the package, and both secrets verify while one is replaced', async (t) => {
  const [older, newer, other] = [newSecret(), newSecret(), newSecret()]
  const [body, nowMs] = ['{"text":"Grüße 😀"}', Date.now()]
  const headers = signedHeaders([newer, older], { id: 'ntf_1', body, nowMs })
  const expected = [newer, older].map((secret) => new Webhook(secret).sign('ntf_1', new Date(nowMs), body)).join(' ')
  t.equal(headers['webhook-signature'], expected)
  for (const secret of [newer, older]) t.ok(new Webhook(secret).verify(body, headers))
  t.throws(() => new Webhook(other).verify(body, headers))
  t.throws(() => new Webhook(newer).verify(`${body} `, headers))
  t.throws(() => new Webhook(newer).verify(body, signedHeaders([newer], { id: 'ntf_1', body, nowMs: nowMs - 360_000 })))
})

const ANSWERS: [number, number | undefined, object][] = [
  [200, undefined, { is: 'sent' }],
  [204, undefined, { is: 'sent' }],
  [301, undefined, { is: 'later', of: 'destination' }],
  [302, 60, { is: 'later', afterSeconds: undefined }],
  [400, undefined, { is: 'later', of: undefined }],
  [410, undefined, { is: 'gone' }],
  [429, 60, { is: 'later', of: 'destination', afterSeconds: 60 }],
  [503, 86_400, { is: 'later', afterSeconds: 3600 }],
  [500, 60, { is: 'later', afterSeconds: undefined }],
]
for (const [status, after, want] of ANSWERS) {
  t.test(`${status}${after ? ` with Retry-After ${after}` : ''}: ${JSON.stringify(want)}`, async (t) => {
    t.match(outcomeOf(status, after), want)
  })
}

const hook = (org: string, ...args: string[]) => {
  const [verb = '', ...rest] = args
  return commandLine(['webhook', verb, org, ...rest], env)
}
/** An organization with a webhook, and a worker that sends to it. */
async function aWorld(t: Parameters<typeof notifying>[0]) {
  const world = await notificationWorld(database)
  const org = formatId('organization', world.orgId)
  const made = await hook(org, 'set', receiver.url(`/${org}`))
  if (made.code !== 0) throw new Error(made.err)
  const worker = notifying(t, database, parts())
  const mine = () => receiver.received.filter(({ path }) => path === `/${org}`)
  const rows = () =>
    world.rowsOf(
      `select id, state, attempts, reason from notification_deliveries where org_id = $1 order by created_at`,
      [world.orgId],
    )
  const webhook = uuidOf('webhook', made.out.webhook_id)
  /** Ends each pause at once: pauses have a test of their own. */
  const ended = (state: string, n = 1) =>
    eventually(state, async () => {
      await world.endRest(webhook)
      worker.wake()
      const found = (await rows()).filter((row) => row.state === state)
      return found.length === n ? found : undefined
    })
  const show = async () => (await hook(org, 'show')).out
  return { ...world, org, webhook, secret: made.out.secret as string, worker, mine, rows, ended, show }
}
const verified = (secret: string, { headers, body }: Received) =>
  new Webhook(secret).verify(body.toString(), headers as Record<string, string>) as {
    type: string
    data: Record<string, unknown>
  }

t.test('the receiver is told of each invitation and mention, with who is meant', async (t) => {
  receiver.be(204)
  const world = await aWorld(t)
  const eventId = await world.event()
  const user = await world.person()
  const [byPhone, byMail, byId] = [
    await world.invitation({ eventId, phone: '+4915112345678', message: 'Come!' }),
    await world.invitation({ eventId, email: 'guest@example.org' }),
    await world.invitation({ eventId, userId: user.id }),
  ]
  const comment = await world.comment({ eventId, by: world.host.id, mentions: [user.id], body: 'Look, @Ann' })
  await world.consume(
    world.worker,
    [byPhone, byMail, byId].map((one) => world.due(one)),
  )
  await world.consume(world.worker, [world.mentioned(comment, user.id)])
  await world.ended('sent', 4)
  const told = world.mine().map((one) => verified(world.secret, one))
  const of = (id: string) => told.find(({ data }) => data['invitation_id'] === formatId('invitation', id))
  t.match(of(byPhone.id), {
    type: 'EventInvitation.v1',
    data: {
      recipient: { phone_number: '+4915112345678' },
      title: 'Class reunion',
      host_name: 'Mira',
      starts_at: '2026-12-24T17:30:00.000Z',
      message: 'Come!',
      invite_url: /^https:\/\/api\.example\.org\/v1\/e\/c\/ntf_\w{26}#t=/,
    },
  })
  t.strictSame(of(byMail.id)?.data['recipient'], { email: 'guest@example.org' })
  t.strictSame(of(byId.id)?.data['recipient'], { user_id: formatId('user', user.id) })
  t.match(
    told.find(({ type }) => type === 'Mention.v1'),
    { data: { recipient: { user_id: formatId('user', user.id) }, author_name: 'Mira', excerpt: 'Look, @Ann' } },
  )
})

t.test('a repetition has the same id and bytes, and another signature', async (t) => {
  let count = 0
  receiver.be((_, response) => response.writeHead(++count === 1 ? 500 : 204).end('x'.repeat(5000)))
  const world = await aWorld(t)
  await world.consume(world.worker, [world.due(await world.invitation())])
  await world.ended('sent')
  const [first, second] = world.mine()
  t.equal(world.mine().length, 2)
  t.equal(first?.headers['webhook-id'], second?.headers['webhook-id'])
  t.ok(first && second && first.body.equals(second.body))
  if (second) t.ok(verified(world.secret, second))
  t.match(await world.show(), { failing_since: null, last_status: 204 })
})

t.test('a receiver that switches protocols is one that fails', async (t) => {
  receiver.be((_, response) =>
    response.socket?.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
  )
  const world = await aWorld(t)
  await world.consume(world.worker, [world.due(await world.invitation())])
  t.match(await world.ended('failed'), [{ attempts: 3, reason: 'the receiver answered 101' }])
  t.match(await world.show(), { last_status: 101, failing_since: /Z$/ })
})

t.test('two attempts that were lost with their workers leave the rest of the schedule', async (t) => {
  receiver.be(204)
  const world = await aWorld(t)
  await world.worker.stop()
  const [soon, later, last] = [await world.invitation(), await world.invitation(), await world.invitation()]
  await world.consume(
    world.worker,
    [soon, later, last].map((one) => world.due(one)),
  )
  const lost = (of: { id: string }, attempts: number) =>
    world.rowsOf(
      `update notification_deliveries set state = 'sending', attempts = $2, may_have_arrived = true,
         next_attempt_at = now() - interval '1 second'
       where notification_id = (select id from notifications where invitation_id = $1)`,
      [of.id, attempts],
    )
  /** One after the other: a destination has one attempt in flight. */
  const ended = async (of: { id: string }, attempts: number) => {
    await lost(of, attempts)
    const worker = notifying(t, database, parts([0, 0, 600]))
    const row = await eventually('the end of the lease', async () => {
      const [found] = await world.rowsOf(
        `select state, attempts, round(extract(epoch from next_attempt_at - now()))::int as waits
         from notification_deliveries d join notifications n on n.id = d.notification_id where n.invitation_id = $1`,
        [of.id],
      )
      return found.state === 'sending' ? undefined : found
    })
    await worker.stop()
    return row
  }
  await world.rowsOf(
    `update notification_deliveries set next_attempt_at = now() + interval '1 hour' where org_id = $1`,
    [world.orgId],
  )
  const { waits, ...waiting } = await ended(later, 3)
  t.strictSame(waiting, { state: 'pending', attempts: 3 })
  t.ok(waits > 380 && waits <= 510, `${waits} s: of 600, ± 10 %, less the lease`)
  t.match(await ended(last, 4), { state: 'uncertain', attempts: 4 }, 'the schedule has an end')
  await lost(soon, 2)
  notifying(t, database, parts())
  await world.ended('sent')
  t.equal(world.mine().length, 1)
  t.match(verified(world.secret, world.mine()[0] as Received), {
    data: { invitation_id: formatId('invitation', soon.id) },
  })
})

t.test('what was answered holds if it cannot be recorded, and what cannot be read is not sent', async (t) => {
  receiver.be(204)
  const world = await aWorld(t)
  await database.admin.query('revoke update on webhooks from keepsake_worker')
  t.teardown(() => database.admin.query('grant update on webhooks to keepsake_worker'))
  await world.consume(world.worker, [world.due(await world.invitation())])
  await world.ended('sent')
  t.equal(world.mine().length, 1)
  t.match(await world.show(), { last_status: null })
  await world.worker.stop()
  const blind = { ...database.worker, read: () => Promise.reject(new Error('away')) }
  const worker = notifying(t, database, parts([600], blind))
  await world.consume(worker, [world.due(await world.invitation())])
  const [row] = await eventually('an attempt', async () => {
    const rows = await world.rowsOf(
      `select state, may_have_arrived, reason from notification_deliveries where org_id = $1 and attempts = 1
         and state = 'pending'`,
      [world.orgId],
    )
    return rows.length === 1 ? rows : undefined
  })
  t.strictSame(row, { state: 'pending', may_have_arrived: false, reason: 'not sent: away' })
  t.equal(world.mine().length, 1)
})

t.test('410 disables at once; what it misses can be sent after it is enabled', async (t) => {
  receiver.be(410)
  const world = await aWorld(t)
  await world.consume(world.worker, [world.due(await world.invitation())])
  t.match(await world.ended('failed'), [{ attempts: 1, reason: /410/ }])
  t.match(await world.show(), { disabled_at: /Z$/, disabled_reason: 'the receiver answered 410' })
  const missed = await world.invitation({ email: 'missed@example.org' })
  await world.consume(world.worker, [world.due(missed)])
  t.match(await world.ended('suppressed'), [{ reason: 'the webhook is disabled' }])
  t.equal(world.mine().length, 1)
  receiver.be(204)
  t.match((await hook(world.org, 'enable')).out, { disabled_at: null })
  const [row] = await world.rowsOf(`select id from notifications where email = 'missed@example.org'`)
  await commandLine(['notifications', 'retry', formatId('notification', row.id)], env)
  world.worker.wake()
  await world.ended('sent')
})

t.test('a webhook that fails for five days is disabled, and its answer is kept up to 1 KiB', async (t) => {
  receiver.be((_, response) => response.writeHead(500).end(`a\0${'ü'.repeat(5000)}`))
  const world = await aWorld(t)
  await world.consume(world.worker, [world.due(await world.invitation())])
  await world.ended('failed')
  const shown = await world.show()
  t.match(shown, { failing_since: /Z$/, disabled_at: null, last_status: 500 })
  t.ok(shown.last_answer.length > 500 && Buffer.byteLength(shown.last_answer) <= 1024 + 3)
  const failing = (lastAttempt: string) =>
    world.rowsOf(
      `update webhooks set failing_since = now() - interval '5 days 1 hour', last_attempt_at = now() - $2::interval
       where org_id = $1`,
      [world.orgId, lastAttempt],
    )
  await failing('4 days')
  await world.endRest(world.webhook)
  await world.consume(world.worker, [world.due(await world.invitation())])
  const quiet = () =>
    world.rowsOf(
      `select failing_since > now() - interval '1 hour' as anew, disabled_at from webhooks where org_id = $1`,
      [world.orgId],
    )
  await eventually('a failure after quiet days', async () => (await quiet())[0].anew)
  t.match(await quiet(), [{ disabled_at: null }], 'quiet days are no failures')
  await failing('10 hours')
  await world.endRest(world.webhook)
  await world.consume(world.worker, [world.due(await world.invitation())])
  t.match(await eventually('disabled', async () => ((await world.show()).disabled_at ? world.show() : undefined)), {
    disabled_reason: /failed for 5 days/,
  })
})

t.test('a webhook that asks for patience gets nothing until then, or until it is enabled again', async (t) => {
  receiver.be((_, response) => response.writeHead(503, { 'retry-after': '1800' }).end())
  const world = await aWorld(t)
  await world.consume(world.worker, [world.due(await world.invitation())])
  const shown = await eventually('a pause', async () => {
    const now = await world.show()
    return now.paused_until ? now : undefined
  })
  const seconds = (Date.parse(shown.paused_until) - Date.now()) / 1000
  t.ok(seconds > 1700 && seconds <= 1800, `${seconds} s`)
  const other = await aWorld(t)
  receiver.be(204)
  await world.consume(world.worker, [world.due(await world.invitation())])
  await other.consume(other.worker, [other.due(await other.invitation())])
  await other.ended('sent')
  t.equal(world.mine().length, 1)
  t.equal((await hook(world.org, 'enable')).code, 0)
  t.match(await world.show(), { paused_until: null })
  world.worker.wake()
  await eventually('the second message', async () => world.mine().length === 2)
})

t.test('what waits for a webhook that rests is sent once the webhook is enabled or moved', async (t) => {
  for (const [verb, ...args] of [['enable'], ['set', receiver.url('/moved')]] as const) {
    receiver.be(500)
    const world = await aWorld(t)
    await world.consume(world.worker, [world.due(await world.invitation())])
    await eventually('a pause', async () => (await world.show()).paused_until)
    // As after many failures: it rests for long.
    const rests = `now() + interval '10 minutes'`
    const due = `update notification_deliveries set next_attempt_at = ${rests} where destination = $1 returning next_attempt_at`
    await world.rowsOf(
      `with due as (${due}) update notification_pauses set paused_until = due.next_attempt_at from due where receiver = $1`,
      [world.webhook],
    )
    receiver.be(204)
    t.equal((await hook(world.org, verb, ...args)).code, 0)
    await eventually('the message', async () => {
      world.worker.wake()
      return (await world.rows()).every(({ state }) => state === 'sent')
    })
  }
})

t.test('a dead receiver holds up no other, and gets one attempt at a time', async (t) => {
  let open = 0
  let most = 0
  const [dead, alive] = [await aWorld(t), await aWorld(t)]
  const held: (() => void)[] = []
  receiver.be(({ path }, response) => {
    if (path !== `/${dead.org}`) {
      response.writeHead(204).end()
      return
    }
    most = Math.max(most, ++open)
    held.push(() => {
      open--
      response.writeHead(204).end()
    })
  })
  const three = [await dead.invitation(), await dead.invitation(), await dead.invitation()]
  await dead.consume(
    dead.worker,
    three.map((one) => dead.due(one)),
  )
  await eventually('one at the dead one', async () => held.length > 0 || undefined)
  await alive.consume(alive.worker, [alive.due(await alive.invitation())])
  await alive.ended('sent')
  const release = setInterval(() => held.splice(0).forEach((end) => void end()), 20)
  t.teardown(() => clearInterval(release))
  await dead.ended('sent', 3)
  t.equal(most, 1)
})

t.test('what was said about an earlier address says nothing about a new one', async (t) => {
  const world = await aWorld(t)
  let end: (() => void) | undefined
  receiver.be((_, response) => {
    end = () => void response.writeHead(410).end()
  })
  await world.consume(world.worker, [world.due(await world.invitation())])
  await eventually('an attempt', async () => end !== undefined || undefined)
  const moved = await hook(world.org, 'set', receiver.url('/moved'))
  t.equal(moved.out.secret, undefined, 'the secret of before stays')
  end?.()
  await world.ended('failed')
  t.match(await world.show(), { url: receiver.url('/moved'), disabled_at: null, failing_since: null })
})

t.test('a secret is shown once, and the earlier one signs until its end', async (t) => {
  receiver.be(204)
  const world = await aWorld(t)
  t.notMatch(JSON.stringify(await world.show()), /whsec_/)
  const rotated = (await hook(world.org, 'rotate')).out
  t.match(rotated, { secret: /^whsec_/, previous_secret_ends_at: /Z$/ })
  await world.consume(world.worker, [world.due(await world.invitation())])
  await world.ended('sent')
  const [both] = world.mine()
  for (const secret of [world.secret, rotated.secret]) t.ok(both && verified(secret, both))
  const again = (await hook(world.org, 'rotate', '--overlap', '1')).out
  t.equal(again.previous_secret_ends_at, rotated.previous_secret_ends_at, 'the receiver may have the first one still')
  await world.consume(world.worker, [world.due(await world.invitation())])
  await world.ended('sent', 2)
  const three = world.mine()[1]
  for (const secret of [world.secret, rotated.secret, again.secret]) t.ok(three && verified(secret, three))
  const more = []
  for (let times = 0; times < 3; times++) more.push((await hook(world.org, 'rotate')).out)
  await world.consume(world.worker, [world.due(await world.invitation())])
  await world.ended('sent', 3)
  const many = world.mine()[2]
  for (const { secret } of [world, rotated, ...more]) t.ok(many && verified(secret, many))
  t.throws(() => many && verified(again.secret, many), 'one in between is dropped: at most five sign')
  const urgent = (await hook(world.org, 'rotate', '--overlap', '0')).out
  await world.consume(world.worker, [world.due(await world.invitation())])
  await world.ended('sent', 4)
  const alone = world.mine()[3]
  t.ok(alone && verified(urgent.secret, alone))
  for (const { secret } of [world, rotated, again, ...more]) t.throws(() => alone && verified(secret, alone))
})

t.test('mistakes of administrators are said', async (t) => {
  const world = await aWorld(t)
  const unknown = formatId('organization', world.host.id)
  t.match(await hook(unknown, 'set', 'https://hooks.example.org/'), { code: 3, err: /does not exist/ })
  t.match(await hook(unknown, 'show'), { code: 3, err: /no webhook/ })
  for (const url of ['http://hooks.example.org/', 'https://10.0.0.1/', 'https://a:b@hooks.example.org/', 'nonsense']) {
    t.match(await hook(world.org, 'set', url), { code: 3, err: /The address/ }, url)
  }
  t.equal((await hook(world.org, 'rotate', '--overlap', 'day')).code, 2)
  t.match((await hook(world.org, 'disable')).out, { disabled_reason: 'by an administrator' })
  // Without the private authority of this test, which `webhook test` gets from NODE_EXTRA_CA_CERTS.
  t.match((await hook(world.org, 'test')).out, { delivered: false, status: null, reason: /could not be reached/ })
  const audited = await world.rowsOf(`select details from audit_log where org_id = $1`, [world.orgId])
  t.notMatch(JSON.stringify(audited), /whsec_|hooks\.example/)
})
