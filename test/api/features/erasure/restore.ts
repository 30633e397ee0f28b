// A process of its own: it restores into another server, and names that to what comes after.
import { execFile } from 'node:child_process'
import { access, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import t from 'tap'
import { runCommandLine } from '../../../../api/command-line.ts'
import { openDatabase } from '../../../../api/db/db.ts'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { downloadPrefix, highlightPrefix } from '../../../../lib/contract/object-keys.ts'
import { startEmbeddedPostgres } from '../../../../local/postgres.ts'
import { ageObjects } from '../../../support/aged-objects.ts'
import {
  aPerson,
  fakeMp4,
  formOf,
  type Person,
  startApiOn,
  startTestApi,
  type TestApi,
  uuidOf,
} from '../../../support/api.ts'
import { canaryScene } from '../../../support/canary-scene.ts'
import { commandLine } from '../../../support/command-line.ts'
import { testCluster } from '../../../support/conversion-world.ts'
import { withDatabase } from '../../../support/database.ts'
import { canariesOf, eraseDeps, eraseWhole, findInDatabase, findInStore, needlesOf } from '../../../support/erasure.ts'
import { eventually } from '../../../support/eventually.ts'
import { matchWhole } from '../../../support/match-whole.ts'
import { quietLog } from '../../../support/quiet-log.ts'

/** A database comes back from a backup of before an erasure. The programs of a server that pg_dump can read: version 15. */
const PG15 = '/usr/lib/postgresql/15/bin'
const has15 = await access(`${PG15}/pg_dump`).then(
  () => true,
  () => false,
)
const run = promisify(execFile)

/** In everything that Ana stores. */
const MARK = 'anaspicture'
const marked = Buffer.concat([fakeMp4(150), Buffer.from(MARK)])

async function uploadPhotos({ call, org }: TestApi, who: Person, count: number): Promise<Uuid[]> {
  const ids: Uuid[] = []
  for (let n = 0; n < count; n++) {
    const { data } = await call(who, 'POST', `/api/media/${org}/single`, { form: formOf(marked) })
    ids.push(uuidOf('media', data.media_id))
  }
  return ids
}

/** Photos, a chunk of a film, a film of her photos and a copy of her data, as the programs store them. */
async function storeMore(api: TestApi, who: Person): Promise<void> {
  const { call, org, store } = api
  await uploadPhotos(api, who, 3)
  const json = { filename: 'a.mp4', mime_type: 'video/mp4', file_size_bytes: 400, chunk_size_bytes: marked.length }
  const { data } = await call(who, 'POST', `/api/media/${org}/upload`, { json })
  await call(who, 'PUT', `/api/media/${org}/upload/${data.upload_id}/0`, { bytes: marked })
  const films = highlightPrefix(uuidOf('organization', org), newUuid())
  await store.put(`${films}v1/segment.ts`, marked, { contentType: 'video/mp2t' })
  await store.put(`${downloadPrefix(who.id, newUuid())}1-1/photos.zip`, marked, { contentType: 'application/zip' })
}

t.test(
  'a restored database erases again before it serves',
  { skip: has15 ? false : `PostgreSQL 15 is not installed (in ${PG15})` },
  async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'keepsake-restore-'))
    const binaries = { initdb: `${PG15}/initdb`, postgres: `${PG15}/postgres` }
    const log = quietLog()
    const server = await startEmbeddedPostgres({ dataDir: join(folder, 'data'), log, fast: true, binaries })
    t.teardown(async () => {
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    })
    process.env['KEEPSAKE_TEST_DATABASE_URL'] = server.url
    const api = await startTestApi(t, { settings: { TRUST_PROXY_HOPS: '1' } })
    const { people, database, config, identity } = api
    const cluster = testCluster(t)
    const canaries = canariesOf(newUuid())
    const scene = await canaryScene(api, canaries, cluster)
    const ana = people.another
    await uploadPhotos(api, ana, 6)

    const dump = join(folder, 'backup.dump')
    await run(`${PG15}/pg_dump`, ['--format=custom', `--file=${dump}`, database.url])

    // After the backup: someone who is in it is erased, and someone who is not.
    const later = await aPerson(api)
    const erased: Person[] = [scene.person, later]
    for (const { wireId } of erased) {
      const { data } = await api.call(people.platformAdmin, 'POST', '/gdpr/anonymize', {
        json: { user_id: wireId, confirm: true },
      })
      await eraseWhole(eraseDeps(api, cluster), uuidOf('anonymization', data.anonymization_id))
    }
    t.equal((await api.call(people.owner, 'GET', '/health')).status, 200, 'what was erased here is no surprise')
    const withRows = await api.keys()
    await storeMore(api, ana)
    const stored = (await api.keys()).filter((key) => !withRows.includes(key))
    t.equal(stored.length, 6)

    const admin = new pg.Client({ connectionString: server.url })
    await admin.connect()
    await admin.query('create database restored')
    await admin.end()
    const url = withDatabase(server.url, 'restored')
    await run(`${PG15}/pg_restore`, ['--exit-on-error', `--dbname=${url}`, dump])
    const options = { url, statementTimeoutMs: 10_000, maxConnections: 10, log }
    const restored = {
      url,
      db: openDatabase({ ...options, role: 'keepsake_api' }),
      worker: openDatabase({ ...options, role: 'keepsake_worker' }),
      admin: new pg.Pool({ connectionString: url, max: 3 }),
    }
    t.teardown(async () => {
      await Promise.all([restored.db.close(), restored.worker.close(), restored.admin.end()])
    })
    const emails = () => findInDatabase(restored.admin, needlesOf(canaries, ['email']))
    t.ok((await emails()).length > 3, 'the backup has brought the person back')

    const again = await startApiOn(t, {
      database: restored,
      identity,
      store: api.store,
      settings: { ERASURE_KEY: config.ERASURE_KEY, TRUST_PROXY_HOPS: '1' },
    })
    const health = async () => (await fetch(`${again.publicUrl}/health`)).status
    t.equal(await health(), 503, 'it does not serve before the ledger is replayed')

    const env = {
      DATABASE_URL: url,
      STORE_KIND: 'folder',
      STORE_FOLDER: config.STORE_FOLDER ?? '',
      ERASURE_KEY: config.ERASURE_KEY,
    }
    const lines: string[] = []
    const command = (more: Record<string, string> = {}) =>
      runCommandLine(
        ['erasures', 'replay'],
        { out: (text) => lines.push(text), err: (text) => lines.push(text) },
        { ...env, ...more },
      )
    t.equal(await command({ ERASURE_KEY: Buffer.alloc(32, 9).toString('base64url') }), 1)
    t.match(lines.pop(), /is not the key with which the ledger/, 'a wrong key finds no one, and says so')
    t.equal(await health(), 503)
    t.equal(await command(), 0)
    t.match(JSON.parse(lines.pop() ?? ''), { entries: 2, erased: 1 })
    t.equal(await command(), 0)
    t.match(JSON.parse(lines.pop() ?? ''), { entries: 0, erased: 0 }, 'once')
    await eventually('it to serve', async () => (await health()) === 200)

    for (const { token } of erased) {
      const answer = await fetch(`${again.publicUrl}/v1/api/users/me`, {
        headers: { authorization: `Bearer ${token}` },
      })
      t.equal(answer.status, 401, 'also of whom the backup knows nothing')
    }
    const { rows } = await restored.admin.query('select from users where id = $1', [later.id])
    t.strictSame(rows, [], 'no token brings back who was erased')

    // What was stored since the backup has no row: no erasure would find it.
    const orphans = (...more: string[]) => commandLine(['objects', 'orphans', ...more], env)
    t.match(await orphans('--delete'), { code: 0, out: { young: { folders: 6 }, deleted: { folders: 0 } } })
    await ageObjects(env.STORE_FOLDER, 25)
    const { lines: listed } = await orphans()
    t.ok(listed.every(({ folder, state }) => state === 'orphan' && stored.some((key) => key.startsWith(folder))))
    t.match(await orphans('--delete'), { code: 0, out: { deleted: { folders: 6, objects: 6 } } })
    t.strictSame(await api.keys(), withRows, 'what the backup knows stays')

    const { rows: erasures } = await restored.admin.query(`select id, asked_by from erasures`)
    matchWhole(t, erasures, [{ asked_by: 'ledger' }])
    const deps = eraseDeps({ ...api, database: restored }, cluster)
    await eraseWhole(deps, erasures[0].id)
    t.strictSame(await emails(), [])
    t.strictSame(await findInDatabase(restored.admin, needlesOf(canaries, ['text', 'phone', 'agent', 'token'])), [])

    // Ana leaves: nothing of her is left where people's files are.
    const needles = [MARK, ana.id]
    t.equal((await findInStore(api.store, needles)).length, 6)
    const asked = await fetch(`${again.publicUrl}/v1/gdpr/anonymize`, {
      method: 'POST',
      headers: { authorization: `Bearer ${people.platformAdmin.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ user_id: ana.wireId, confirm: true }),
    })
    const { data } = (await asked.json()) as { data: { anonymization_id: string } }
    await eraseWhole(deps, uuidOf('anonymization', data.anonymization_id))
    t.strictSame(await findInStore(api.store, needles), [])
  },
)
