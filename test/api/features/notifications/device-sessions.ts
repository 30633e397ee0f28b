import { generateKeyPairSync, randomUUID } from 'node:crypto'
import t from 'tap'
import { pushPart } from '../../../../api/features/notifications/push/channel.ts'
import { PushSettings } from '../../../../api/features/notifications/push/settings.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { loadConfig } from '../../../../lib/runtime/config.ts'
import { aPerson, startTestApi, uuidOf } from '../../../support/api.ts'
import { ask } from '../../../support/ask.ts'
import { eventually } from '../../../support/eventually.ts'
import { httpsReceiver } from '../../../support/https-receiver.ts'
import { notificationWorld, notifying } from '../../../support/notifications.ts'

/** A phone gets push messages as long as its person is signed in there. */
const api = await startTestApi(t)
const { database, identity } = api
const world = await notificationWorld(database)
const receiver = await httpsReceiver(t)
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const account = {
  project_id: 'keepsake-1',
  client_email: 'push@keepsake-1.iam.gserviceaccount.com',
  private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  token_uri: receiver.url('/token'),
}
const settings = {
  ...receiver.settings,
  ...loadConfig(PushSettings, { FCM_SERVICE_ACCOUNT: JSON.stringify(account) }),
}
const fcmOrigin = receiver.url('').replace(/\/$/, '')
receiver.be(({ path }, response) => {
  const token = { access_token: 'at', expires_in: 3599, token_type: 'Bearer' }
  response.end(JSON.stringify(path === '/token' ? token : { name: 'projects/keepsake-1/messages/1' }))
})
const worker = notifying(t, database, [pushPart({ settings, db: database.worker }, { ca: receiver.ca, fcmOrigin })])

interface Tokens {
  access_token: string
  session_id: string
}

/** A member of the world's organization, with a phone that signs in with a password, time and again. */
async function aPhone() {
  const { id } = await aPerson(api)
  await database.admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [
    world.orgId,
    id,
  ])
  const credentials = { email: `${id}@example.org`, password: randomUUID() }
  identity.account({ sub: id, ...credentials, claims: () => ({ sid: randomUUID() }) })
  const call = async (token: string, method: string, path: string, body?: object) => {
    const headers = { authorization: `Bearer ${token}` }
    const { status, json } = await ask(api.port, { method, path: `/v1${path}`, headers, ...(body && { body }) })
    if (status > 299) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(json)}`)
  }
  const device = newUuid()
  const registration = { kind: 'fcm', token: `token:${device}` }
  return {
    async signIn(deviceId?: string): Promise<Tokens> {
      const body = { ...credentials, ...(deviceId !== undefined && { device_id: deviceId }) }
      const { status, json } = await ask(api.port, { method: 'POST', path: '/v1/api/auth/login', body })
      if (status !== 200) throw new Error(`${status} ${JSON.stringify(json)}`)
      return json.data
    },
    signOut: ({ access_token, session_id }: Tokens) => call(access_token, 'DELETE', `/api/auth/sessions/${session_id}`),
    signOutOthers: ({ access_token }: Tokens) => call(access_token, 'DELETE', '/api/auth/sessions'),
    register: ({ access_token }: Tokens) =>
      call(access_token, 'PUT', `/api/users/me/devices/${formatId('device', device)}`, registration),
    /** What becomes of a push message that tells of a mention now. */
    async mention(): Promise<{ state: string; reason: string | null }> {
      const comment = await world.comment({ eventId: await world.event(), by: world.host.id, mentions: [id as Uuid] })
      await world.consume(worker, [world.mentioned(comment, id as Uuid)])
      return eventually('an end', async () => {
        const row = (await world.deliveries(device)).at(-1)
        return row && ['pending', 'sending'].includes(row.state) ? undefined : row
      })
    },
    device,
    isRegistered: async () => (await world.rowsOf('select from devices where id = $1', [device])).length === 1,
    sessionOfDevice: async () =>
      (await world.rowsOf('select session_id from devices where id = $1', [device]))[0]?.session_id,
  }
}
/** As if the time had passed after which a session is not listed any more. */
const lapse = ({ session_id }: Tokens, set: string) =>
  world.rowsOf(`update sessions set ${set} where id = $1`, [uuidOf('session', session_id)])
const LAPSED = `refresh_until = now() - interval '8 days', last_used_at = now() - interval '15 days'`

t.test('a phone that signed in again without registering, and signs out, gets no push messages', async (t) => {
  const phone = await aPhone()
  const first = await phone.signIn()
  await phone.register(first)
  t.match(await phone.mention(), { state: 'sent' })
  await lapse(first, LAPSED)
  const second = await phone.signIn()
  await phone.signOut(second)
  t.notOk(await phone.isRegistered())
})

t.test('a phone that was not used for weeks gets push messages', async (t) => {
  const phone = await aPhone()
  const session = await phone.signIn()
  await phone.register(session)
  for (const set of [LAPSED, `refresh_until = null, last_seen_at = now() - interval '31 days'`]) {
    await lapse(session, set)
    t.match(await phone.mention(), { state: 'sent' }, set)
  }
})

t.test('a sign-out leaves the device of another session that lasts', async (t) => {
  const phone = await aPhone()
  const first = await phone.signIn()
  await phone.register(first)
  await phone.signOut(await phone.signIn())
  t.ok(await phone.isRegistered())
})

t.test('a sign-in with the same device id takes the device of a lapsed session over', async (t) => {
  const phone = await aPhone()
  const first = await phone.signIn('phone-1')
  await phone.register(first)
  await lapse(first, LAPSED)
  const [second, other] = [await phone.signIn('phone-1'), await phone.signIn('phone-2')]
  await phone.signOutOthers(second)
  t.match(await phone.mention(), { state: 'sent' })
  await t.rejects(phone.signOut(other))
  await phone.signOut(second)
  t.notOk(await phone.isRegistered())
})

t.test('no sign-in takes over the device of a session that lasts, or of another device id', async (t) => {
  const phone = await aPhone()
  const first = await phone.signIn('phone-1')
  await phone.register(first)
  await phone.signIn('phone-1')
  t.equal(await phone.sessionOfDevice(), uuidOf('session', first.session_id))
  await lapse(first, LAPSED)
  await phone.signIn('phone-2')
  await phone.signIn()
  t.equal(await phone.sessionOfDevice(), uuidOf('session', first.session_id))
})

t.test('devices whose sessions are called as earlier versions did, or not known, are no others', async (t) => {
  const phone = await aPhone()
  const first = await phone.signIn()
  await phone.register(first)
  await world.rowsOf(
    'update devices set session_id = (select sid from sessions where id::text = session_id) where id = $1',
    [phone.device],
  )
  await lapse(first, LAPSED)
  await phone.signOut(await phone.signIn())
  t.notOk(await phone.isRegistered())
  await phone.register(await phone.signIn())
  await world.rowsOf('update devices set session_id = null where id = $1', [phone.device])
  await phone.signOut(await phone.signIn())
  t.ok(await phone.isRegistered())
})
