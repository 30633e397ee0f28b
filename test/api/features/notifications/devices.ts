import { request } from 'node:http'
import t from 'tap'
import { hashOfKey } from '../../../../api/features/notifications/push/vapid-key.ts'
import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { aPerson, type Person, startTestApi, uuidOf } from '../../../support/api.ts'
import { eventually } from '../../../support/eventually.ts'
import { aBrowser, vapidSettings } from '../../../support/push.ts'

/** Which devices get push messages, and whose they are. */
const { VAPID_PUBLIC_KEY } = vapidSettings()
const api = await startTestApi(t, { settings: { VAPID_PUBLIC_KEY } })
const path = '/api/users/me/devices'
let count = 0
const endpoint = () => `https://updates.push.services.mozilla.com/wpush/v2/${++count}`
const browser = (o: object = {}) => ({ kind: 'webpush', endpoint: endpoint(), keys: aBrowser().keys, ...o })
const app = (token = `token:${++count}`) => ({ kind: 'fcm', token })
const newId = () => formatId('device', newUuid())
const put = (who: Person, id: string, json: object) => api.call(who, 'PUT', `${path}/${id}`, { json })
const listed = async (who: Person): Promise<string[]> =>
  (await api.call(who, 'GET', path)).data.devices.map((one: { device_id: string }) => one.device_id)

t.test('a device is registered once, however often it asks, and its address is never shown', async (t) => {
  const [me, id] = [await aPerson(api), newId()]
  const first = await put(me, id, browser())
  t.match(first, {
    status: 200,
    data: { device_id: id, kind: 'webpush', push_service: 'updates.push.services.mozilla.com' },
  })
  const second = await put(me, id, app('another:token'))
  t.match(second, { status: 200, data: { device_id: id, kind: 'fcm', push_service: null } })
  t.equal(second.data.created_at, first.data.created_at)
  t.strictSame(await listed(me), [id])
  t.notMatch(JSON.stringify((await api.call(me, 'GET', path)).body), /another:token|wpush/)
  const [row] = (
    await api.database.admin.query('select p256dh, auth, address from devices where id = $1', [uuidOf('device', id)])
  ).rows
  t.strictSame(row, { p256dh: null, auth: null, address: 'another:token' })
})

t.test('an address has one owner: who registered it last', async (t) => {
  const [me, other] = [await aPerson(api), await aPerson(api)]
  const [mine, theirs, given] = [newId(), newId(), app()]
  await put(me, mine, given)
  await put(other, theirs, given)
  t.strictSame([await listed(me), await listed(other)], [[], [theirs]])
  const ids = [newId(), newId(), newId(), newId()]
  const answers = await Promise.all(ids.map((id, n) => put(n % 2 === 0 ? me : other, id, given)))
  t.strictSame(
    answers.map(({ status }) => status),
    [200, 200, 200, 200],
  )
  t.equal((await listed(me)).length + (await listed(other)).length, 1)
})

t.test('the id of a device of another user is not there', async (t) => {
  const [me, other, id] = [await aPerson(api), await aPerson(api), newId()]
  await put(other, id, app())
  t.equal((await put(me, id, app())).code, 'NOT_FOUND')
  t.equal((await api.call(me, 'DELETE', `${path}/${id}`)).code, 'NOT_FOUND')
  t.strictSame([await listed(me), await listed(other)], [[], [id]])
})

t.test('what is no address of a push service is refused', async (t) => {
  const me = await aPerson(api)
  const BAD: [object, RegExp][] = [
    [browser({ endpoint: 'https://127.0.0.1/x' }), /body\.endpoint/],
    [browser({ endpoint: 'https://evil.example.org/x' }), /body\.endpoint/],
    [browser({ endpoint: 'https://fcm.googleapis.com.evil.org/x' }), /body\.endpoint/],
    [browser({ endpoint: 'https://fcm.googleapis.com:8443/x' }), /body\.endpoint/],
    [browser({ endpoint: 'https://a:b@fcm.googleapis.com/x' }), /body\.endpoint/],
    [browser({ endpoint: 'http://fcm.googleapis.com/x' }), /body\.endpoint/],
    [browser({ keys: { ...aBrowser().keys, p256dh: Buffer.alloc(65, 4).toString('base64url') } }), /p256dh/],
    [browser({ keys: { ...aBrowser().keys, auth: 'AA' } }), /auth/],
    [app('a b'), /token/],
    [app(''), /token/],
    [{ kind: 'pigeon' }, /kind/],
  ]
  for (const [json, field] of BAD) {
    const answer = await put(me, newId(), json)
    t.equal(answer.status, 400, JSON.stringify(json))
    t.match(JSON.stringify(answer.body.error.details), field)
  }
  t.strictSame(await listed(me), [])
})

t.test('a user has at most 20 devices: the ones registered longest ago go', async (t) => {
  const me = await aPerson(api)
  const ids = Array.from({ length: 22 }, newId)
  for (const id of ids.slice(0, 20)) await put(me, id, app())
  await put(me, ids[0] ?? '', app())
  for (const id of ids.slice(20)) await put(me, id, app())
  t.strictSame(new Set(await listed(me)), new Set([ids[0], ...ids.slice(3)]))
})

t.test('devices are removed one by one, all together, and by signing out', async (t) => {
  const [me, other] = [await aPerson(api), await aPerson(api)]
  const [one, two] = [newId(), newId()]
  for (const id of [one, two]) await put(me, id, app())
  await put(other, newId(), app())
  t.equal((await api.call(me, 'DELETE', `${path}/${one}`)).status, 204)
  t.equal((await api.call(me, 'DELETE', `${path}/${one}`)).status, 404)
  t.strictSame(await listed(me), [two])
  t.equal((await api.call(me, 'DELETE', path)).status, 204)
  t.strictSame(await listed(me), [])
  await put(me, one, app())
  t.equal((await api.call(me, 'POST', '/api/auth/logout')).status, 204)
  const { rows } = await api.database.admin.query('select user_id from devices where user_id = any($1)', [
    [me.id, other.id],
  ])
  t.strictSame(rows, [{ user_id: other.id }])
})

t.test('a registration that a sign-out overtakes leaves no device', async (t) => {
  const me = await aPerson(api)
  await listed(me)
  const signOut = await api.database.admin.connect()
  await signOut.query('begin')
  await signOut.query('update users set tokens_not_before = clock_timestamp() where id = $1', [me.id])
  const late = put(me, newId(), app())
  // The registration has begun, and waits for the row of the user.
  await eventually('a wait', async () => {
    const { rows } = await api.database.admin.query(`select 1 from pg_stat_activity where wait_event_type = 'Lock'
      and datname = current_database() and query like '%no key update%'`)
    return rows[0]
  })
  await signOut.query('update users set tokens_not_before = clock_timestamp() where id = $1', [me.id])
  await signOut.query('commit')
  signOut.release()
  t.equal((await late).status, 401)
  t.strictSame((await api.database.admin.query('select 1 from devices where user_id = $1', [me.id])).rows, [])
})

t.test('a registration that began before a sign-out and arrives after it leaves no device', async (t) => {
  const me = await aPerson(api)
  await listed(me)
  const body = JSON.stringify(app())
  const path = `${api.config.BASE_PATH}/api/users/me/devices/${newId()}`
  const headers = { authorization: `Bearer ${me.token}`, 'content-type': 'application/json' }
  const late = request(`${api.publicUrl}${path}`, {
    method: 'PUT',
    headers: { ...headers, 'content-length': body.length },
  })
  const answered = new Promise<number | undefined>((resolve, reject) =>
    late.once('error', reject).once('response', (res) => resolve(res.resume().statusCode)),
  )
  late.write(body.slice(0, 5))
  const accepted = () => api.logged.length
  const before = accepted()
  // A later request on another connection: the first one has been authenticated by the time it is answered.
  await listed(me)
  await eventually('a log line', async () => accepted() > before)
  t.equal((await api.call(me, 'POST', '/api/auth/logout')).status, 204)
  late.end(body.slice(5))
  t.equal(await answered, 401)
  t.strictSame((await api.database.admin.query('select 1 from devices where user_id = $1', [me.id])).rows, [])
})

t.test('a browser keeps the key that it subscribed with, until it has another endpoint', async (t) => {
  const [me, id, first] = [await aPerson(api), newId(), browser()]
  const keyOf = async () =>
    (await api.database.admin.query('select vapid_key from devices where id = $1', [uuidOf('device', id)])).rows[0]
      .vapid_key
  await put(me, id, first)
  t.equal(await keyOf(), hashOfKey(VAPID_PUBLIC_KEY))
  await api.database.admin.query(`update devices set vapid_key = 'of before' where id = $1`, [uuidOf('device', id)])
  await put(me, id, first)
  t.equal(await keyOf(), 'of before')
  await put(me, id, browser())
  t.equal(await keyOf(), hashOfKey(VAPID_PUBLIC_KEY))
  await put(me, id, app())
  t.equal(await keyOf(), null)
})

t.test('browsers get the key that they subscribe with', async (t) => {
  const { data } = await api.call(await aPerson(api), 'GET', '/api/push/vapid-key')
  t.strictSame(data, { public_key: VAPID_PUBLIC_KEY })
})
