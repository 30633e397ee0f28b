import t from 'tap'
import { deleteDownloadObjects, endDownloadsOf, sweepDownloads } from '../../../../api/features/downloads/downloads.ts'
import { insertDownload, removeDownloads } from '../../../../api/features/downloads/queries.ts'
import { openLinks } from '../../../../api/features/media/delivery/links.ts'
import { signToken } from '../../../../api/features/media/delivery/token.ts'
import { tellDownloadReady } from '../../../../api/features/notifications/download-ready.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { downloadPrefix, downloadsPrefix } from '../../../../lib/contract/object-keys.ts'
import { pathOf, startTestApi } from '../../../support/api.ts'
import { eventually } from '../../../support/eventually.ts'
import { matchWhole } from '../../../support/match-whole.ts'
import { notifying, scriptedChannel } from '../../../support/notifications.ts'
import { quietLog } from '../../../support/quiet-log.ts'

const started = Date.now()
let skewMs = 0
const clock = { now: () => new Date(started + skewMs) }
const api = await startTestApi(t, { clock })
const { store, database, call } = api
const { member, another } = api.people
const { worker } = database
const links = openLinks({ baseUrl: 'https://keepsake.example/v1', keys: api.config.LINK_KEYS, clock })
const deps = { db: worker, store, log: quietLog() }
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)

const BYTES = Buffer.from(Array.from({ length: 3000 }, (_, n) => n % 251))
const day = (days: number) => new Date(Date.now() + days * 86_400_000)

async function aDownload(of: { id: Uuid } = member, o: { expiresAt?: Date; kind?: 'data' | 'audit' } = {}) {
  const id = newUuid()
  const { expiresAt = day(7), kind = 'data' } = o
  const key = `${downloadPrefix(of.id, id)}1-1/keepsake-2026-11-21.zip`
  await store.put(key, BYTES, { contentType: 'application/octet-stream' })
  await worker.inTransaction({}, (tx) =>
    insertDownload(tx, { id, userId: of.id, kind, files: 1, bytes: BYTES.length, expiresAt }),
  )
  return { id, userId: of.id, key, path: pathOf(links.download(key)) }
}
const get = (path: string, headers: Record<string, string> = {}) => call(undefined, 'GET', path, { headers })

t.test('a link delivers one file as an attachment, whole or in parts', async (t) => {
  const { path, key } = await aDownload()
  const whole = await get(path)
  t.equal(whole.status, 200)
  t.strictSame(whole.body, BYTES)
  t.match(Object.fromEntries(whole.headers), {
    'content-type': 'application/zip',
    'content-disposition': 'attachment; filename=keepsake-2026-11-21.zip',
    'x-content-type-options': 'nosniff',
    'cache-control': 'private, no-store',
    'content-security-policy': /sandbox/,
    'accept-ranges': 'bytes',
  })
  const rest = await get(path, { range: 'bytes=1000-', 'if-range': whole.headers.get('etag') ?? '' })
  t.equal(rest.status, 206)
  t.strictSame(rest.body, BYTES.subarray(1000))
  const csv = key.replace('.zip', '.csv')
  await store.put(csv, 'a', { contentType: 'text/html' })
  t.equal((await get(pathOf(links.download(csv)))).headers.get('content-type'), 'text/csv; charset=utf-8')
})

t.test('a link opens nothing else, and lasts a day', async (t) => {
  const { path, key, userId, id } = await aDownload()
  const other = await aDownload()
  const page = key.replace('.zip', '.html')
  await store.put(page, '<script>', { contentType: 'text/html' })
  t.equal((await get(pathOf(links.download(page)))).status, 404, 'of a type that is not downloaded')
  const token = path.split('/')[2] ?? ''
  const { LINK_KEYS } = api.config
  const below = (prefix: string) => `/d/${signToken(LINK_KEYS, prefix, Date.now() / 1000 + 3600)}/${key}`
  for (const wrong of [
    `/d/${token}/${other.key}`,
    `/d/${token}/${key.replace('1-1', '1-2')}`,
    `/d/${token}/${key.replace(userId, another.id)}`,
    path.replace('downloads/', 'downloads/%2e%2e%2fdownloads/'),
    below(downloadPrefix(userId, id)),
    below(downloadsPrefix(userId)),
  ]) {
    t.equal((await get(wrong)).status, 404, wrong)
  }
  t.throws(() => links.download('org/x/media/y/original'), /only a file of a download/)
  t.throws(() => links.url(key), /only objects of media items/)
  skewMs = (86_400 - 5) * 1000
  t.equal((await get(path)).status, 200, 'good for the day that was promised')
  skewMs = (86_400 + 15 * 60 + 5) * 1000
  t.equal((await get(path)).status, 404)
  skewMs = 0
})

t.test('a download that is removed, expires, or whose person is erased is gone at once, with its files', async (t) => {
  const kept = await aDownload(another)
  const ends: [string, (download: Awaited<ReturnType<typeof aDownload>>) => Promise<unknown>][] = [
    ['removed', (one) => database.db.inTransaction({ user: one.userId }, (tx) => removeDownloads(tx, [one]))],
    ['expired', ({ id }) => sql(`update downloads set expires_at = now() where id = $1`, [id])],
    ['erased', ({ userId }) => worker.inTransaction({}, (tx) => endDownloadsOf(tx, userId))],
  ]
  for (const [name, end] of ends) {
    const one = await aDownload()
    t.equal((await get(one.path)).status, 200)
    await end(one)
    t.equal((await get(one.path)).status, 404, name)
    await sweepDownloads(deps)
    t.strictSame(await api.keys(downloadPrefix(one.userId, one.id)), [], name)
    matchWhole(t, await sql('select looks from removed_downloads where id = $1', [one.id]), [{ looks: 0 }])
    // A worker that was late wrote once more.
    await store.put(one.key, BYTES, { contentType: 'application/zip' })
    await sql(`update removed_downloads set next_look_at = now() where id = $1`, [one.id])
    await sweepDownloads(deps)
    t.strictSame(await api.keys(downloadPrefix(one.userId, one.id)), [], `${name}, looked at again`)
  }
  for (let looks = 0; looks < 9; looks++) {
    await sql('update removed_downloads set next_look_at = now()')
    await sweepDownloads(deps)
  }
  t.strictSame(await sql('select * from removed_downloads'), [], 'forgotten in the end')
  t.equal((await get(kept.path)).status, 200, 'that of another person stays')
  await deleteDownloadObjects(deps, another.id)
  t.strictSame(await api.keys(downloadsPrefix(another.id)), [])
})

t.test('nobody but its person can end a download', async (t) => {
  const one = await aDownload()
  const scope = { user: another.id }
  await t.rejects(database.db.inTransaction(scope, (tx) => removeDownloads(tx, [one])))
  await t.rejects(database.db.inTransaction({}, (tx) => removeDownloads(tx, [one])))
  t.equal((await get(one.path)).status, 200)
})

t.test('the person is told once, by a mail without a credential, and not of what has ended', async (t) => {
  await sql('update users set email = $2, locale = $3 where id = $1', [member.id, 'M@example.org', 'de-AT'])
  const channel = scriptedChannel(() => ({ is: 'sent' }))
  const one = await aDownload()
  const tell = (download: typeof one) => worker.inTransaction({}, (tx) => tellDownloadReady(tx, download))
  await Promise.all([tell(one), tell(one)])
  const ended = await aDownload()
  await tell(ended)
  await worker.inTransaction({}, (tx) => removeDownloads(tx, [ended]))
  const sender = notifying(t, { worker }, [channel.part])
  sender.wake()
  const states = () =>
    sql('select notification_id as id, channel, state from notification_deliveries order by created_at')
  await eventually('the deliveries', async () => (await states()).every(({ state }) => state !== 'pending'))
  t.strictSame(await states(), [
    { id: one.id, channel: 'email', state: 'sent' },
    { id: ended.id, channel: 'email', state: 'suppressed' },
  ])
  t.equal(channel.sent.length, 1)
  const { message, to } = channel.sent[0] ?? {}
  t.equal(to?.address, 'm@example.org')
  t.match(message, {
    orgId: null,
    template: 'DownloadReady.v1',
    language: 'de',
    url: 'https://app.example.org/#my-data',
    linkExpiresAt: null,
    facts: { downloadId: one.id, kind: 'data', files: 1, bytes: BYTES.length },
    mail: { subject: 'Zum Herunterladen bereit: Eine Kopie deiner Daten' },
  })
  t.match(message?.mail.text, /1 Datei, 3 kB/)
  t.notMatch(JSON.stringify(message), /\/d\/|downloads\//, 'no link to a file')
  const audit = await aDownload(another, { kind: 'audit' })
  await sql(`update users set email = 'a@example.org' where id = $1`, [another.id])
  await tell(audit)
  sender.wake()
  await eventually('the other mail', () => channel.sent.length === 2)
  t.match(channel.sent[1]?.message, {
    url: 'https://app.example.org/#audit',
    mail: { subject: 'Ready to download: An export of the audit log' },
  })
  t.match(channel.sent[1]?.message.recipient, { userId: another.id })
  t.match(formatId('notification', audit.id), /^ntf_/)
})
