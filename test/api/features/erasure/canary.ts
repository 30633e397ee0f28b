import t from 'tap'
import { PERSONAL_PARTS } from '../../../../api/features.ts'
import type { Canary } from '../../../../api/personal/part.ts'
import { startRelay } from '../../../../api/worker/relay.ts'
import { HIGHLIGHT_RENDERS } from '../../../../crds/highlight-render.ts'
import { TRANSCODE_JOBS } from '../../../../crds/transcode-job.ts'
import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { openMemoryBus } from '../../../../lib/runtime/event-bus/memory.ts'
import { openNatsBus } from '../../../../lib/runtime/event-bus/nats.ts'
import { aPerson, startTestApi, uuidOf } from '../../../support/api.ts'
import { canaryScene } from '../../../support/canary-scene.ts'
import { testCluster } from '../../../support/conversion-world.ts'
import {
  canariesOf,
  eraseDeps,
  eraseWhole,
  findInDatabase,
  findInFolder,
  findInStore,
  needlesOf,
} from '../../../support/erasure.ts'
import { eventually } from '../../../support/eventually.ts'
import { matchWhole } from '../../../support/match-whole.ts'
import { quietLog } from '../../../support/quiet-log.ts'
import { startNats } from '../../../support/services/nats.ts'

/** A person fills every field, is erased, and is found nowhere. */
const api = await startTestApi(t, { settings: { TRUST_PROXY_HOPS: '1' } })
const { people, database, org } = api
const cluster = testCluster(t)
const canaries = canariesOf(newUuid())
const scene = await canaryScene(api, canaries, cluster)
const NAMESPACE = 'media'

/** The stream of events; undefined where no NATS server is installed. */
const nats = await startNats()
const log = quietLog()
const bus = nats ? openNatsBus({ url: nats.url, log }) : openMemoryBus({ log })
t.teardown(async () => {
  await bus.close()
  await nats?.stop()
})
/** Publishes what the scene has announced. */
async function publishAll(): Promise<void> {
  const relay = startRelay({ db: database.worker, bus, log, react: async () => {} }, { pollMs: 20 })
  await eventually('the events', async () => {
    const { rows } = await database.admin.query('select from outbox where published_at is null limit 1')
    return rows.length === 0
  })
  await relay.stop()
}
const inStream = async () => (await nats?.stored()) ?? []

const entries = PERSONAL_PARTS.flatMap(({ personal }) =>
  Object.entries(personal).flatMap(([table, { columns }]) =>
    Object.entries(columns).map(([column, entry]) => ({ column: `${table}.${column}`, entry })),
  ),
)
const find = (kinds?: Canary[]) => findInDatabase(database.admin, needlesOf(canaries, kinds))
const folder = api.config.STORE_FOLDER ?? ''
const inCluster = async () => {
  const lists = [TRANSCODE_JOBS, HIGHLIGHT_RENDERS].map((kind) => cluster.list(kind, { namespace: NAMESPACE }))
  const text = JSON.stringify(await Promise.all(lists)).toLowerCase()
  return needlesOf(canaries, TEXTS).some((one) => text.includes(one))
}
/** What a person writes, or is reached by: nothing of it stays anywhere. */
const TEXTS: Canary[] = ['text', 'email', 'phone', 'agent', 'address', 'token']

const foundBefore = await find(TEXTS)
const request = await api.call(people.platformAdmin, 'POST', '/gdpr/anonymize', {
  json: { user_id: scene.person.wireId, confirm: true, reason: canaries.text },
})

t.test('before, the person is found in every column whose entry says so, and in no other', async (t) => {
  t.equal(request.status, 201)
  t.ok(foundBefore.includes('member_names.name'))
  const filled: string[] = []
  const byKind = new Map<Canary, string[]>()
  for (const kind of [...TEXTS, 'id', 'subject'] as Canary[]) byKind.set(kind, await find([kind]))
  for (const { column, entry } of entries) {
    if (!('erase' in entry)) continue
    filled.push(column)
    const places = byKind.get(entry.canary)
    // These went in the transaction that closed the account.
    if (!GONE_AT_ONCE.includes(column)) t.ok(places?.includes(column), `${column} holds a canary (${entry.canary})`)
  }
  t.ok(filled.length > 40)
  const texts = await find(TEXTS)
  t.strictSame(
    texts.filter((column) => !filled.includes(column)),
    [],
    'no column without an entry of its own holds what the person wrote',
  )
  t.ok((await findInStore(api.store, needlesOf(canaries, TEXTS))).length >= 4, 'originals, derivatives, films')
  t.ok((await findInFolder(folder, needlesOf(canaries, ['token']))).length > 0, 'chunks')
  t.ok(await inCluster(), 'specifications of resources')
  await publishAll()
  if (nats) t.ok((await inStream()).some(isOfPerson), 'messages')
})
const isOfPerson = ({ text }: { text: string }) => needlesOf(canaries).some((one) => text.toLowerCase().includes(one))

/** With the sign-in and the memberships. */
const GONE_AT_ONCE = [
  ...['devices.address', 'devices.p256dh', 'devices.auth', 'devices.session_id'],
  ...['sessions.device_id', 'sessions.device_name', 'sessions.ip_address'],
  'member_names.name',
]

t.test('after, nothing is found, but the id where an entry says that it stays', async (t) => {
  await eraseWhole(eraseDeps(api, cluster, { bus }), uuidOf('anonymization', request.data.anonymization_id))
  t.strictSame(await find(TEXTS), [])
  const stays = entries.flatMap(({ column, entry }) => ('person' in entry && entry.person !== 'gone' ? [column] : []))
  // A partition of the log is the log.
  const ofTable = (column: string) => column.replace(/_(\d{8}|before)\./, '.')
  const places = (await find(['id', 'subject'])).map(ofTable).filter((column) => column !== 'users.id')
  t.strictSame(
    places.filter((column) => !stays.includes(column)),
    [],
  )
  t.strictSame(await findInStore(api.store, needlesOf(canaries)), [])
  t.strictSame(await findInFolder(folder, needlesOf(canaries)), [])
  t.notOk(await inCluster())
  const logged = api.logged.map((line) => JSON.stringify(line).toLowerCase())
  const secrets = needlesOf(canaries, ['text', 'email', 'phone'])
  t.strictSame(
    logged.filter((line) => secrets.some((one) => line.includes(one))),
    [],
    'log lines',
  )
})

t.test('of the stream of events, too', { skip: !nats && 'nats-server is not installed' }, async (t) => {
  t.strictSame((await inStream()).filter(isOfPerson), [])
  t.strictSame(nats && (await findInFolder(nats.data, needlesOf(canaries, ['text']))), [], 'files of the server')
  const left = (await inStream()).map(({ text }) => JSON.parse(text))
  const said = left.filter(({ type, data }) => type === 'CommentPosted' && data.author_id === people.owner.wireId)
  t.ok(
    said.some(({ data }) => data.target_id === scene.replied),
    'what another one has replied was not read yet, and stays',
  )
  t.ok(said.some(({ data }) => data.event_id === scene.event && data.target_type === 'meta'))
})

t.test('what others have stays whole', async (t) => {
  const { owner } = people
  const get = (path: string) => api.call(owner, 'GET', path)
  const event = await get(`/api/orgs/${org}/events/${scene.event}`)
  t.match(event.data, { title: 'Event', description: null, location_name: null, owner_id: owner.wireId })
  t.equal((await get(`/api/orgs/${org}/events/${scene.draft}`)).status, 404)
  t.equal((await get(`/api/orgs/${org}/albums/${scene.ownAlbum}`)).status, 404)
  t.match((await get(`/api/orgs/${org}/albums/${scene.sharedAlbum}`)).data, { title: 'Album', owner_id: owner.wireId })
  const items = await get(`/api/orgs/${org}/albums/${scene.othersAlbum}/media`)
  matchWhole(t, items.data.media, [{ media_id: scene.othersMedia, caption: null }])
  const at = `/api/orgs/${org}/events/${scene.event}/meta/${scene.event}/comments`
  const { data } = await get(`${at}/${scene.mentioned}`)
  matchWhole(t, data, { body: 'Hello again @anonymous.', mentions: [] })
  const deleted = await get(`${at}/${scene.replied}?include_deleted=true`)
  t.match(deleted.data, { body: '', author_name: null, reply_count: 1 })
  // Someone whom the person had invited, and who is no member.
  const guest = await aPerson(api)
  const email = 'friend@example.org'
  await database.admin.query('update users set email = $2 where id = $1', [guest.id, email])
  const { rows } = await database.admin.query('select id, message from invitations where email = $1', [email])
  t.match(rows, [{ message: null }])
  const respond = `/api/invitations/${formatId('invitation', rows[0].id)}/respond`
  t.equal((await api.call(guest, 'POST', respond, { json: { response: 'accept' } })).status, 200)
  for (const id of [scene.othersHighlight, scene.ownHighlight]) {
    const { data } = await get(`/api/media/${org}/highlights/${id}`)
    t.match(data, { status: 'failed', error: { code: 'SOURCE_ERASED' } })
  }
  t.equal((await get(`/api/media/${org}/${scene.media}`)).status, 404)
  t.equal((await get(`/api/media/${org}/${scene.othersMedia}`)).status, 200)
})

t.test('the certificate says what was erased, and nothing of the person', async (t) => {
  const { data } = await api.call(people.platformAdmin, 'GET', `/gdpr/anonymize/${request.data.anonymization_id}`)
  t.match(data, { status: 'completed', reason: null, certificate: { provider_account: 'not_touched' } })
  t.match(data.certificate.erased, { comments: 2, media_items: Number, objects: Number, captions: Number })
  const text = JSON.stringify(data).toLowerCase()
  t.strictSame(
    needlesOf(canaries, TEXTS).filter((one) => text.includes(one)),
    [],
  )
})

t.test('the next token does not bring the person back', async (t) => {
  // The account at the provider was not touched. Of a token that is newer than the last change, what it says is recorded.
  const claims = { email: canaries.email, email_verified: true, name: canaries.text, phone_number: canaries.phone }
  const newer = { ...claims, phone_number_verified: true, iat: Math.floor(Date.now() / 1000) + 5, sid: newUuid() }
  for (const token of [await api.identity.token({ sub: canaries.id, claims: newer }), scene.person.token]) {
    const { status } = await api.call({ ...scene.person, token }, 'GET', '/api/users/me')
    t.equal(status, 401)
  }
  const { rows } = await database.admin.query('select issuer, email, display_name, subject from users where id = $1', [
    canaries.id,
  ])
  t.match(rows, [{ issuer: 'erased', email: null, display_name: null }])
  t.not(rows[0].subject, canaries.subject)
  t.strictSame(await find(TEXTS), [])
})
