import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { importJWK, jwtVerify } from 'jose'
import t from 'tap'
import type { Rendered } from '../../../../api/features/notifications/channel.ts'
import { accessTokens } from '../../../../api/features/notifications/push/access-token.ts'
import { pushPart } from '../../../../api/features/notifications/push/channel.ts'
import { outcomeOf as fcmOutcomeOf } from '../../../../api/features/notifications/push/fcm.ts'
import { isPushHost } from '../../../../api/features/notifications/push/hosts-policy.ts'
import { MAX_PAYLOAD, pushMessageOf, webPushPayload } from '../../../../api/features/notifications/push/message.ts'
import { PushSettings } from '../../../../api/features/notifications/push/settings.ts'
import { hashOfKey } from '../../../../api/features/notifications/push/vapid-key.ts'
import { outcomeOf } from '../../../../api/features/notifications/push/web-push.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { loadConfig } from '../../../../lib/runtime/config.ts'
import { openGuard } from '../../../../lib/runtime/guarded-http/guarded-http.ts'
import { freePort } from '../../../../local/ports.ts'
import { testDatabase } from '../../../support/database.ts'
import { eventually } from '../../../support/eventually.ts'
import { httpsReceiver } from '../../../support/https-receiver.ts'
import { notificationWorld, notifying, scriptedChannel } from '../../../support/notifications.ts'
import { aBrowser, vapidSettings } from '../../../support/push.ts'

/** Push messages to browsers and apps, through services of this machine. */
const database = await testDatabase(t)
const receiver = await httpsReceiver(t)
const { ca } = receiver
const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const account = {
  project_id: 'keepsake-1',
  client_email: 'push@keepsake-1.iam.gserviceaccount.com',
  private_key_id: 'k1',
  private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  token_uri: receiver.url('/token'),
}
const vapid = vapidSettings()
const settings = {
  ...receiver.settings,
  ...loadConfig(PushSettings, { ...vapid, PUSH_HOSTS: '127.0.0.1', FCM_SERVICE_ACCOUNT: JSON.stringify(account) }),
}
const world = await notificationWorld(database)
const options = { ca, schedule: [0, 0], fcmOrigin: receiver.url('').replace(/\/$/, '') }
const db = database.worker

t.test('only hosts of push services are known', async (t) => {
  const hosts = PushSettings.parse({}).PUSH_HOSTS
  for (const host of [
    'fcm.googleapis.com',
    'updates.push.services.mozilla.com',
    'web.push.apple.com',
    'db5p.notify.windows.com',
  ]) {
    t.ok(isPushHost(host, hosts), host)
  }
  for (const host of [
    'googleapis.com',
    'evil-fcm.googleapis.com',
    'evilpush.apple.com',
    'fcm.googleapis.com.evil.org',
    'notify.windows.com',
    '',
  ]) {
    t.notOk(isPushHost(host, hosts), host)
  }
})

const WEB: [number, object][] = [
  [201, { is: 'sent' }],
  [404, { is: 'gone' }],
  [410, { is: 'gone' }],
  [413, { is: 'refused' }],
  [429, { is: 'later', of: 'destination', afterSeconds: 7 }],
  [500, { is: 'later', of: 'destination' }],
  [302, { is: 'refused' }],
  [401, { is: 'later', isOurs: true }],
  [403, { is: 'later', isOurs: true }],
]
const fcmError = (code: string, more: object[] = []) => ({
  error: { details: [...more, { '@type': 'type.googleapis.com/google.firebase.fcm.v1.FcmError', errorCode: code }] },
})
const violation = (field: string) => ({
  '@type': 'type.googleapis.com/google.rpc.BadRequest',
  fieldViolations: [{ field }],
})
const FCM: [number, unknown, object][] = [
  [200, {}, { is: 'sent' }],
  [404, fcmError('UNREGISTERED'), { is: 'gone', reason: /UNREGISTERED/ }],
  [404, {}, { is: 'refused' }],
  [403, fcmError('SENDER_ID_MISMATCH'), { is: 'gone' }],
  [403, { error: { status: 'PERMISSION_DENIED' } }, { is: 'refused' }],
  [400, fcmError('INVALID_ARGUMENT'), { is: 'refused' }],
  [400, fcmError('INVALID_ARGUMENT', [violation('message.token')]), { is: 'gone' }],
  [400, fcmError('INVALID_ARGUMENT', [violation('message.android.ttl')]), { is: 'refused' }],
  [429, fcmError('QUOTA_EXCEEDED'), { is: 'later', of: 'service', afterSeconds: 7 }],
  [503, fcmError('UNAVAILABLE'), { is: 'later', afterSeconds: 7 }],
  [500, fcmError('INTERNAL'), { is: 'later' }],
  [502, undefined, { is: 'later' }],
  [401, fcmError('THIRD_PARTY_AUTH_ERROR'), { is: 'later', of: 'service', isOurs: true }],
]
t.test('what the answers of push services mean', async (t) => {
  for (const [status, want] of WEB) t.match(outcomeOf(status, 7, false), want, `${status}`)
  t.match(outcomeOf(403, 7, true), { is: 'gone' }, 'a subscription of another key')
  t.match(outcomeOf(401, 7, true), { is: 'later' })
  for (const [status, body, want] of FCM)
    t.match(fcmOutcomeOf(status, body, 7), want, `${status} ${JSON.stringify(body)}`)
})

const invitationAt = (startsAt: string) =>
  ({
    ...{ template: 'EventInvitation.v1', invitationId: newUuid(), eventId: newUuid(), startsAt: new Date(startsAt) },
  }) as Rendered['facts']
const rendered = (o: Partial<Rendered> = {}) =>
  ({
    id: newUuid(),
    orgId: newUuid(),
    template: 'EventInvitation.v1',
    facts: invitationAt('2033-05-08T08:00:00Z'),
    url: 'https://api.example.org/v1/e/c/ntf_1#t=secret',
    linkExpiresAt: new Date(3_600_000),
    short: { title: 'Mira invites you', body: 'Tomorrow' },
    ...o,
  }) as Rendered

t.test('a message holds no token, and fits', async (t) => {
  const message = pushMessageOf(rendered(), 0)
  t.notMatch(JSON.stringify(message), /secret/)
  t.match(message.topic, /^[\w-]{1,32}$/)
  for (const sign of ['a', '"', '😀', '\u{1F468}\u200D\u{1F469}\u200D\u{1F467}']) {
    const text = sign.repeat(2000)
    const long = webPushPayload(pushMessageOf(rendered({ short: { title: text, body: text } }), 0))
    t.ok(Buffer.byteLength(long) < 2800 && Buffer.byteLength(long) <= MAX_PAYLOAD, `${Buffer.byteLength(long)} bytes`)
    t.ok(JSON.parse(long).body.length > 0)
  }
})

const LIVES: [string, string, number][] = [
  ['2026-11-27T12:00:00Z', 'the next month', 86_400],
  ['2026-12-23T12:00:00Z', 'a day and a half before', 86_400],
  ['2026-12-24T22:00:00Z', 'two hours before', 7200],
  ['2026-12-24T23:59:59.500Z', 'half a second before', 86_400],
  ['2026-12-25T00:00:00Z', 'at the beginning', 86_400],
  ['2027-01-25T00:00:00Z', 'a month after', 86_400],
]
for (const [now, when, ttl] of LIVES) {
  t.test(`an invitation is kept for ${ttl} s, ${when}, however long its link lives`, async (t) => {
    const facts = invitationAt('2026-12-25T00:00:00Z')
    for (const linkExpiresAt of [new Date(Date.parse(now) + 900_000), new Date(0)]) {
      t.equal(pushMessageOf(rendered({ facts, linkExpiresAt }), Date.parse(now)).ttl, ttl)
    }
  })
}

async function aDevice(
  userId: Uuid,
  o: { kind: 'webpush' | 'fcm'; address: string; keys?: { p256dh: string; auth: string } },
) {
  const id = newUuid()
  await database.admin.query(
    `insert into devices (id, user_id, kind, address, p256dh, auth) values ($1, $2, $3, $4, $5, $6)`,
    [id, userId, o.kind, o.address, o.keys?.p256dh ?? null, o.keys?.auth ?? null],
  )
  return id
}
const settled = (destination: string, state: string) =>
  eventually(state, async () => (await world.deliveries(destination)).find((row) => row.state === state))
const isThere = async (id: string) => (await world.rowsOf('select 1 from devices where id = $1', [id])).length === 1

t.test('a browser decrypts what its push service was sent, signed with the key of the server', async (t) => {
  receiver.be(201)
  const worker = notifying(t, database, [pushPart({ settings, db }, options)])
  const [user, browser] = [await world.person(), aBrowser()]
  const device = await aDevice(user.id, { kind: 'webpush', address: receiver.url('/push/1'), keys: browser.keys })
  const invitation = await world.invitation({ userId: user.id, lasts: '20 minutes' })
  await world.rowsOf(`update events set start_at = now() + interval '30 days' where id = $1`, [invitation.eventId])
  await world.consume(worker, [world.due(invitation)])
  await settled(device, 'sent')
  const got = receiver.received.find(({ path }) => path === '/push/1')
  t.match(got && browser.read(got.body), {
    type: 'EventInvitation.v1',
    title: 'Mira invites you: Class reunion',
    invitation_id: formatId('invitation', invitation.id),
    url: /\/e\/c\/ntf_\w{26}$/,
  })
  t.match(got?.headers, {
    'content-encoding': 'aes128gcm',
    topic: formatId('invitation', invitation.id),
    urgency: 'high',
  })
  t.equal(got?.headers['ttl'], '86400')
  const point = Buffer.from(vapid.VAPID_PUBLIC_KEY, 'base64url')
  const [x, y] = [point.subarray(1, 33).toString('base64url'), point.subarray(33).toString('base64url')]
  const key = await importJWK({ kty: 'EC', crv: 'P-256', x, y }, 'ES256')
  const [, jwt = ''] = /^vapid t=([^,]+)/.exec(String(got?.headers.authorization)) ?? []
  const { payload } = await jwtVerify(jwt, key, { audience: `https://127.0.0.1:${receiver.port}` })
  t.equal(payload.sub, 'mailto:ops@keepsake.example')
})

t.test('a device that the push service no longer knows is dropped; others of the user get theirs', async (t) => {
  receiver.be(({ path }, response) => response.writeHead(path === '/push/gone' ? 410 : 201).end())
  const worker = notifying(t, database, [pushPart({ settings, db }, options)])
  const user = await world.person()
  const [gone, stays] = [
    await aDevice(user.id, { kind: 'webpush', address: receiver.url('/push/gone'), keys: aBrowser().keys }),
    await aDevice(user.id, { kind: 'webpush', address: receiver.url('/push/stays'), keys: aBrowser().keys }),
  ]
  await world.consume(worker, [world.due(await world.invitation({ userId: user.id }))])
  await settled(gone, 'failed')
  await settled(stays, 'sent')
  t.strictSame([await isThere(gone), await isThere(stays)], [false, true])
})

t.test('a device of another VAPID key is dropped; with the same or an unknown key, a 403 drops nothing', async (t) => {
  receiver.be(403)
  const worker = notifying(t, database, [pushPart({ settings, db }, options)])
  const user = await world.person()
  const devices = await Promise.all(
    [hashOfKey('another'), hashOfKey(vapid.VAPID_PUBLIC_KEY), null].map(async (key, n) => {
      const address = receiver.url(`/push/key-${n}`)
      const id = await aDevice(user.id, { kind: 'webpush', address, keys: aBrowser().keys })
      await database.admin.query('update devices set vapid_key = $2 where id = $1', [id, key])
      return id
    }),
  )
  await world.consume(worker, [world.due(await world.invitation({ userId: user.id }))])
  for (const id of devices) await settled(id, 'failed')
  t.strictSame(await Promise.all(devices.map(isThere)), [false, true, true])
  const [[first], [second]] = [await world.deliveries(devices[0] ?? ''), await world.deliveries(devices[1] ?? '')]
  t.match([first, second], [{ attempts: 1 }, { attempts: 3 }])
})

t.test('nothing is sent to hosts that are no push service, and to devices that have changed hands', async (t) => {
  receiver.be(201)
  const strict = { ...settings, PUSH_HOSTS: ['push.example.org'] }
  const worker = notifying(t, database, [pushPart({ settings: strict, db }, options)])
  const [user, next] = [await world.person(), await world.person()]
  const before = receiver.received.length
  const device = await aDevice(user.id, { kind: 'webpush', address: receiver.url('/push/x'), keys: aBrowser().keys })
  await world.consume(worker, [world.due(await world.invitation({ userId: user.id }))])
  t.match(await settled(device, 'failed'), { reason: 'not a push service' })
  await worker.stop()
  await world.consume(worker, [world.due(await world.invitation({ userId: user.id }))])
  await database.admin.query('update devices set user_id = $2 where id = $1', [device, next.id])
  notifying(t, database, [pushPart({ settings, db }, options)])
  t.match(await settled(device, 'suppressed'), { reason: /does not have the device/ })
  t.equal(receiver.received.length, before)
})

t.test('an app gets its message through FCM, with a token of the service account', async (t) => {
  let tokens = 0
  let refused = 1
  receiver.be(({ path, headers }, response) => {
    if (path === '/token') {
      response.end(JSON.stringify({ access_token: `at${++tokens}`, expires_in: 3599, token_type: 'Bearer' }))
      return
    }
    const status = headers.authorization === 'Bearer at1' && refused-- > 0 ? 401 : 200
    response.writeHead(status).end(JSON.stringify({ name: 'projects/keepsake-1/messages/1' }))
  })
  const before = receiver.received.length
  const worker = notifying(t, database, [pushPart({ settings, db }, options)])
  const user = await world.person({ locale: 'de' })
  const device = await aDevice(user.id, { kind: 'fcm', address: 'token:of-the_phone' })
  const comment = await world.comment({ eventId: await world.event(), by: world.host.id, mentions: [user.id] })
  await world.consume(worker, [world.mentioned(comment, user.id)])
  await settled(device, 'sent')
  const [asked, first, again, second] = receiver.received.slice(before)
  t.strictSame([asked?.path, again?.path, tokens], ['/token', '/token', 2], 'a refused access token is replaced once')
  const form = new URLSearchParams(asked?.body.toString())
  t.equal(form.get('grant_type'), 'urn:ietf:params:oauth:grant-type:jwt-bearer')
  const claims = await jwtVerify(form.get('assertion') ?? '', publicKey, {
    audience: account.token_uri,
    issuer: account.client_email,
  })
  t.match(claims, { protectedHeader: { alg: 'RS256', kid: 'k1' }, payload: { scope: /firebase\.messaging$/ } })
  t.equal((claims.payload.exp ?? 0) - (claims.payload.iat ?? 0), 3600)
  t.equal(first?.path, '/v1/projects/keepsake-1/messages:send')
  t.match(JSON.parse(second?.body.toString() ?? '{}').message, {
    token: 'token:of-the_phone',
    notification: { title: 'Mira hat dich erwähnt: Class reunion', body: 'Do you remember?' },
    data: { type: 'Mention.v1', comment_id: formatId('comment', comment.id) },
    android: { collapse_key: formatId('comment', comment.id), ttl: '86400s' },
    apns: { headers: { 'apns-collapse-id': formatId('comment', comment.id) } },
  })
})

t.test('while FCM rests, all apps wait after one look, and browsers and mails do not', async (t) => {
  receiver.be(201)
  const [user, other] = [await world.person(), await world.person()]
  const [one, two] = [
    await aDevice(user.id, { kind: 'fcm', address: 'token:one' }),
    await aDevice(user.id, { kind: 'fcm', address: 'token:two' }),
  ]
  const browser = await aDevice(other.id, { kind: 'webpush', address: receiver.url('/push/b'), keys: aBrowser().keys })
  const mail = scriptedChannel(() => ({ is: 'sent' }), { name: 'email' }).part
  const idle = notifying(t, database, [pushPart({ settings, db }, options), mail])
  await idle.stop()
  for (const { id } of [user, other]) await world.consume(idle, [world.due(await world.invitation({ userId: id }))])
  await world.rowsOf(`insert into notification_pauses (channel, receiver, failures, paused_until)
    values ('push', 'fcm', 1, now() + interval '10 minutes')`)
  notifying(t, database, [pushPart({ settings, db }, options)])
  await settled(browser, 'sent')
  const waiting = await world.rowsOf(
    `select count(*)::int as n, count(distinct xmin::text)::int as statements from notification_deliveries
      where destination = any($1) and reason = 'fcm rests' and next_attempt_at > now() + interval '9 minutes'`,
    [[one, two]],
  )
  t.strictSame(waiting, [{ n: 2, statements: 1 }])
  const mails = await world.rowsOf(
    `select 1 from notification_deliveries where channel = 'email' and reason is null and destination = $1`,
    [user.email],
  )
  t.equal(mails.length, 1)
  await world.rowsOf(`delete from notification_pauses where receiver = 'fcm'`)
})

t.test('what cannot be reached rests, and what was not sent there is no attempt', async (t) => {
  const away = () => Promise.reject(Object.assign(new Error('queryA'), { code: 'ETIMEOUT', syscall: 'queryA' }))
  const nameless = { ...options, resolve: away, fcmOrigin: 'https://fcm.example.org' }
  const noOne = await freePort()
  const ports = [...settings.OUTBOUND_PORTS, noOne]
  const hosts = { ...settings, OUTBOUND_PORTS: ports, PUSH_HOSTS: ['127.0.0.1', 'push.example.org'] }
  const user = await world.person()
  const app = await aDevice(user.id, { kind: 'fcm', address: 'token:away' })
  const keys = aBrowser().keys
  const [unknown, closed, silent] = await Promise.all(
    ['https://push.example.org/1', `https://127.0.0.1:${noOne}/`, receiver.url('/push/silent')].map((address) =>
      aDevice(user.id, { kind: 'webpush', address, keys }),
    ),
  )
  const outcome = (id: string | undefined, of: object = nameless, signal = new AbortController().signal) =>
    pushPart({ settings: hosts, db }, of).channel?.send(
      rendered({ recipient: { userId: user.id, email: null, phoneNumber: null } }),
      { address: id ?? '', attempt: 1 },
      signal,
    )
  receiver.be(({ path }, response) => {
    if (path === '/token') response.end(JSON.stringify({ access_token: 'at', expires_in: 3600 }))
    else response.destroy()
  })
  const unsent = { is: 'later', wasSent: false }
  t.strictSame(await outcome(app), { ...unsent, of: 'service', reason: 'no answer: ETIMEOUT' })
  t.strictSame(await outcome(unknown), { ...unsent, of: 'destination', reason: 'no answer: ETIMEOUT' })
  t.strictSame(await outcome(closed), { ...unsent, of: 'destination', reason: 'no answer: ECONNREFUSED' })
  // As a proxy does that cannot reach FCM.
  const proxy = createServer((socket) => socket.resetAndDestroy()).listen(noOne, '127.0.0.1')
  t.teardown(() => proxy.close())
  await once(proxy, 'listening')
  const behindProxy = { ...options, fcmOrigin: `https://127.0.0.1:${noOne}` }
  t.strictSame(await outcome(app, behindProxy), { ...unsent, of: 'service', reason: 'no answer: ECONNRESET' })
  t.strictSame(await outcome(closed), { ...unsent, of: 'destination', reason: 'no answer: ECONNRESET' })
  // It may have been sent. One broken connection has no other app wait.
  const unanswered = { is: 'later', isAnswered: false, reason: 'no answer: ECONNRESET' }
  t.strictSame(await outcome(silent), { ...unanswered, of: 'destination' })
  t.strictSame(await outcome(app, options), unanswered)
  // The time of the request ends, as far as the channel can tell.
  const late = new AbortController()
  receiver.be(({ path }, response) => {
    if (path === '/token') response.end(JSON.stringify({ access_token: 'at', expires_in: 3600 }))
    else late.abort()
  })
  const tooLate = { is: 'later', of: 'service', isAnswered: false, reason: 'no answer within 15 s' }
  t.strictSame(await outcome(app, options, late.signal), tooLate, 'a service that does not answer rests')
  receiver.be(502)
  const noToken = 'no access token: the token service answered 502'
  t.strictSame(await outcome(app), { ...unsent, of: 'service', reason: noToken })
  for (const status of [400, 401]) {
    receiver.be(status)
    t.strictSame(await outcome(app), { ...unsent, reason: `no access token: the token service answered ${status}` })
  }
})

t.test('a service account whose key is wrong costs messages by the schedule, and has nothing rest', async (t) => {
  const user = await world.person()
  for (const key of [account.private_key, 'no key']) {
    receiver.be(400)
    const wrong = { ...settings, FCM_SERVICE_ACCOUNT: { ...account, private_key: key } }
    const worker = notifying(t, database, [pushPart({ settings: wrong, db }, options)])
    const device = await aDevice(user.id, { kind: 'fcm', address: `token:wrong-${key.length}` })
    await world.consume(worker, [world.due(await world.invitation({ userId: user.id }))])
    t.match(await settled(device, 'failed'), { attempts: 3, reason: /^no access token: / })
    t.strictSame(await world.rowsOf(`select 1 from notification_pauses where receiver = 'fcm'`), [])
    await worker.stop()
  }
})

t.test('without an access token FCM rests, and a message outlasts its schedule', async (t) => {
  receiver.be(502)
  const worker = notifying(t, database, [pushPart({ settings, db }, { ...options, schedule: [] })])
  const user = await world.person()
  const device = await aDevice(user.id, { kind: 'fcm', address: 'token:waits' })
  await world.consume(worker, [world.due(await world.invitation({ userId: user.id }))])
  const rests = () => world.rowsOf(`select reason from notification_pauses where receiver = 'fcm'`)
  await eventually('the rest', async () => (await rests()).length > 0)
  t.strictSame(await rests(), [{ reason: 'no access token: the token service answered 502' }])
  t.match(await world.deliveries(device), [{ state: 'pending', attempts: 0 }])
  receiver.be((_, response) => response.end('{"access_token":"at","expires_in":3600}'))
  await world.rowsOf(`update notification_pauses set paused_until = now() where receiver = 'fcm'`)
  await world.rowsOf(`update notification_deliveries set next_attempt_at = now() where destination = $1`, [device])
  worker.wake()
  await settled(device, 'sent')
  t.strictSame(await rests(), [], 'its answer ends the rest')
})

t.test('one access token serves all until shortly before its end', async (t) => {
  let [tokens, now] = [0, Date.now()]
  receiver.be((_, response) => {
    tokens += 1
    response.end(JSON.stringify({ access_token: `t${tokens}`, expires_in: 3600 }))
  })
  const source = accessTokens(openGuard(receiver.settings, { ca }), account, () => now)
  t.strictSame(await Promise.all([source.get(), source.get(), source.get()]), ['t1', 't1', 't1'])
  now += 3_299_000
  t.equal(await source.get(), 't1')
  now += 2000
  t.equal(await source.get(), 't2')
  source.forget('t1')
  t.equal(await source.get(), 't2', 'a token of before says nothing about the present one')
  source.forget('t2')
  receiver.be((_, response) => response.writeHead(502).end('<html>'))
  await t.rejects(source.get(), /answered 502/)
  receiver.be((_, response) => response.end('{"access_token":"t9","expires_in":3600}'))
  t.equal(await source.get(), 't9', 'a failure is not kept')
})

t.test('a service account is not refused where the clock of the worker is off', async (t) => {
  let offMs = 0
  const source = accessTokens(openGuard(receiver.settings, { ca }), account, () => Date.now() + offMs)
  receiver.be(400)
  await t.rejects(source.get(), { isRefused: true, message: /answered 400$/ })
  for (offMs of [-600_000, 600_000]) {
    await t.rejects(source.get(), { isRefused: false, message: /answered 400, and has another time$/ }, `${offMs} ms`)
  }
  receiver.be((_, response) => {
    response.sendDate = false
    response.writeHead(400).end()
  })
  await t.rejects(source.get(), { isRefused: true, message: /answered 400$/ }, 'a service that names no time')
})

t.test('a device that the database cannot read gets its message later, and nothing was sent', async (t) => {
  const blind = { ...db, read: () => Promise.reject(new Error('away')) }
  const { channel } = pushPart({ settings, db: blind }, options)
  const before = receiver.received.length
  const outcome = await channel?.send(rendered(), { address: newUuid(), attempt: 1 }, new AbortController().signal)
  t.strictSame(outcome, { is: 'later', wasSent: false, reason: 'not sent: away' })
  t.equal(receiver.received.length, before)
  t.equal(channel?.isIdempotent, true, 'a repetition replaces the message of before')
})

t.test('without settings the channel is off', async (t) => {
  const off = { ...receiver.settings, ...PushSettings.parse({}) }
  t.equal(pushPart({ settings: off, db }).channel, undefined)
  for (const wrong of [{ VAPID_PUBLIC_KEY: 'x' }, { VAPID_SUBJECT: 'ops' }, { FCM_SERVICE_ACCOUNT: '{}' }]) {
    t.notOk(PushSettings.safeParse(wrong).success, JSON.stringify(wrong))
  }
})
