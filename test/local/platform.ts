import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import t, { type Test } from 'tap'
import * as z from 'zod'
import { checkStream } from '../../local/demo/check-stream.ts'
import { type Client, signIn as clientOf, untilConverted, upload } from '../../local/demo/client.ts'
import type { Demo } from '../../local/demo-file.ts'
import { startEmbeddedPostgres } from '../../local/postgres.ts'
import { waitForExit } from '../../local/process-table.ts'
import { clip } from '../support/clips.ts'
import { emptyDatabase } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { processesOf, readDemo, startProcess } from '../support/platform-process.ts'
import { quietLog } from '../support/quiet-log.ts'
import { readableByOthers } from '../support/rights.ts'
import { withSampleMusic } from '../support/samples.ts'
import { slowEncoderPath } from '../support/slow-ffmpeg.ts'

/**
 * The platform as one process, started, killed in the middle of a conversion, started again and stopped. The demo is
 * started again after it was stopped (`test/local/demo/demo.ts`).
 */

const run = promisify(execFile)
const folder = await mkdtemp(join(tmpdir(), 'keepsake-platform-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))

interface Tokens {
  access_token: string
  refresh_token: string
}
async function call(demo: Demo, path: string, options: { token?: string; body?: object } = {}) {
  const response = await fetch(demo.base_url + path, {
    method: options.body ? 'POST' : 'GET',
    headers: {
      'Content-Type': 'application/json',
      ...(options.token && { Authorization: `Bearer ${options.token}` }),
    },
    ...(options.body && { body: JSON.stringify(options.body) }),
  })
  return { status: response.status, data: ((await response.json()) as { data: unknown }).data }
}
const signIn = async (demo: Demo, name: keyof Demo['accounts']) => {
  const { email, password } = demo.accounts[name]
  const { status, data } = await call(demo, '/api/auth/login', { body: { email, password } })
  return { status, ...(data as Tokens) }
}
const reaches = async (url: string) =>
  fetch(url).then(
    (response) => response.status,
    () => 'nothing',
  )

let first: Demo
let session: Tokens
let client: Client
let mediaId: string

t.test('objects whose database is elsewhere get no empty one', async (t: Test) => {
  const folder = t.testdir({ objects: { objects: {} } })
  // As in the shell of someone who used this folder with an earlier version.
  const platform = startProcess(t, folder, { DATABASE_URL: 'postgres://keepsake@127.0.0.1:1/keepsake' })
  await t.rejects(platform.ready(), /ended with 1:/)
  t.match(platform.output(), `${folder} has objects but not the database to which they belong`)
  t.match(platform.output(), /Set KEEPSAKE_DATABASE_URL to that database, such as the one of DATABASE_URL/)
  t.notOk((await readdir(folder)).includes('postgres'))
})

t.test('the first start', async (t: Test) => {
  // As an earlier version left it, or a copy made by hand.
  await mkdir(join(folder, 'mail'))
  await writeFile(join(folder, 'mail/x'), 'private', { mode: 0o644 })
  await chmod(folder, 0o755)
  // One of the two tracks is made here.
  await withSampleMusic(folder)
  await rm(join(folder, 'samples/evening-lights.m4a'))
  // Outside the platform's folder, which the programs of Jobs do not see.
  const platform = startProcess(t, folder, {
    // As in the shell of an administrator of another installation.
    DATABASE_URL: 'postgres://keepsake@127.0.0.1:1/keepsake',
    PATH: await slowEncoderPath(t.testdir(), 0.01),
  })
  first = await platform.ready()

  await t.test('uses no database that the command line is meant for, and says so', async (t) => {
    t.match(platform.output(), /^DATABASE_URL is ignored: .*KEEPSAKE_DATABASE_URL/m)
  })

  await t.test('keeps what it writes, and what was there, from other users', async (t) => {
    t.equal((await stat(join(folder, 'demo.json'))).mode & 0o777, 0o600)
    t.strictSame(await readableByOthers(folder), [])
  })

  await t.test('every address of demo.json answers', async (t) => {
    const { identity_provider: idp } = first
    const addresses: [string, number][] = [
      [`${first.base_url}/health`, 200],
      [`${first.internal_url}/livez`, 200],
      [`${first.internal_url}/readyz`, 200],
      [`${first.metrics_url}/metrics`, 200],
      [`${first.worker_url}/readyz`, 200],
      [`${first.worker_metrics_url}/metrics`, 200],
      [`${first.operator_url}/readyz`, 200],
      [`${first.operator_metrics_url}/metrics`, 200],
      [`${first.page_url}/`, 200],
      [idp.jwks_url, 200],
      [idp.token_url, 404], // by POST only
    ]
    for (const [url, status] of addresses) t.equal(await reaches(url), status, url)
  })

  await t.test('the command line runs with the database of demo.json', async (t) => {
    const env = { ...process.env, DATABASE_URL: first.database_url }
    const { stdout } = await run(process.execPath, ['api/cli.ts', 'media', 'failures'], { env })
    t.strictSame(JSON.parse(stdout), { failures: [] })
  })

  await t.test('every account signs in and sees its own organization only', async (t) => {
    const [one, two] = first.organizations
    for (const name of Object.keys(first.accounts) as (keyof Demo['accounts'])[]) {
      const { status, access_token } = await signIn(first, name)
      t.equal(status, 200, name)
      const mine = first.accounts[name].organizations.map((o) => o.org_id)
      for (const org of [one, two]) {
        const seen = await call(first, `/api/media/${org?.org_id}`, { token: access_token })
        t.equal(seen.status, mine.includes(org?.org_id ?? '') ? 200 : 404, `${name} in ${org?.name}`)
      }
    }
    session = await signIn(first, 'member')
  })

  await t.test('an invitation link opens the page of the platform', async (t) => {
    const org = first.organizations[0]?.org_id
    const owner = await clientOf(first.base_url, first.accounts.owner)
    const event = z
      .object({ event_id: z.string() })
      .parse(
        await owner.call('POST', `/api/orgs/${org}/events`, { title: 'Reunion', start_at: '2031-05-10T16:00:00Z' }),
      )
    const made = z
      .object({ invite_url: z.string() })
      .parse(
        await owner.call('POST', `/api/orgs/${org}/events/${event.event_id}/invitations`, { email: 'bob@example.org' }),
      )
    t.equal(new URL(made.invite_url).origin, first.page_url)
    t.equal(await reaches(made.invite_url), 200)
  })

  await t.test('the sample music is offered in the background', async (t) => {
    const look = async () => {
      const { data } = await call(first, '/api/music-tracks', { token: session.access_token })
      const { tracks } = data as { tracks: { title: string }[] }
      return tracks.length === 2 ? tracks : undefined
    }
    const found = await eventually('two tracks', look, 120_000, 500)
    t.strictSame(
      found.map(({ title }) => title),
      ['Evening lights', 'Morning walk'],
    )
  })

  await t.test('a second platform on the same folder is refused and told by whom', async (t) => {
    const second = startProcess(t, folder)
    t.equal(await second.ended, 1)
    t.match(second.output(), `in use by process ${platform.child.pid}`)
    t.equal(await reaches(`${first.base_url}/health`), 200, 'the first one is not disturbed')
  })

  await t.test('is killed without warning, in the middle of a conversion', async (t) => {
    client = await clientOf(first.base_url, first.accounts.member)
    mediaId = await upload(client, first.organizations[0]?.org_id ?? '', await clip('silent'), () => {})
    await eventually('an encoder', () => processesOf(folder).some((p) => /ffmpeg -readrate/.test(p)), 120_000, 100)
    platform.child.kill('SIGKILL')
    t.equal(await platform.ended, 'SIGKILL')
    await eventually('nobody who outlives the platform', () => processesOf(folder).length === 0, 120_000, 50)
  })
})

t.test('after kill -9 it starts again, with the same people, passwords, tokens and ports', async (t: Test) => {
  // As earlier versions made some.
  await mkdir(join(folder, 'objects/objects/old'), { mode: 0o600 })
  const platform = startProcess(t, folder)
  const demo = await platform.ready()
  t.strictSame(withoutRun(demo), withoutRun(first))
  const org = demo.organizations[0]?.org_id ?? ''
  t.equal((await call(demo, `/api/media/${org}`, { token: session.access_token })).status, 200)
  const renewed = await call(demo, '/api/auth/refresh', { body: { refresh_token: session.refresh_token } })
  t.equal(renewed.status, 200, 'a refresh token that was answered is on disk')
  // A connection's process looks like the server for an instant.
  const servers = () => processesOf(folder).filter((p) => /postgres.* -D/.test(p)).length
  await eventually('one database server', () => servers() === 1, 120_000, 50)

  client = await clientOf(demo.base_url, demo.accounts.member)
  const media = await untilConverted(client, org, mediaId, () => {})
  t.match(media.variants.hls_master_url, /^http/, 'the conversion that was cut off is done again')
  const { renditions } = await checkStream(media.variants.hls_master_url ?? '', 2)
  t.equal(renditions.length, 1)
  // The Postgres server and the Jobs' programs have written meanwhile.
  for (const name of ['objects', 'jobs', 'cluster', 'postgres']) {
    t.strictSame(await readableByOthers(join(folder, name)), [], name)
  }
  t.equal((await stat(join(folder, 'objects/objects/old'))).mode & 0o777, 0o700, 'all folders can be used')

  await t.test('a database server that is killed is started again, and everything goes on', async (t) => {
    const serverOf = async () =>
      Number.parseInt(await readFile(join(folder, 'postgres/postmaster.pid'), 'utf8').catch(() => ''), 10)
    const pid = await serverOf()
    process.kill(pid, 'SIGKILL')
    t.ok(await waitForExit(pid, 60_000))
    // Until then the programs may not have noticed.
    await eventually('another server', async () => ((await serverOf()) || pid) !== pid, 120_000, 50)
    const list = () => call(demo, `/api/media/${org}`, { token: session.access_token })
    await eventually('the API with its database', async () => (await list()).status === 200, 120_000, 50)
    for (const url of [`${demo.base_url}/health`, `${demo.worker_url}/readyz`])
      await eventually(url, async () => (await reaches(url)) === 200, 120_000, 50)
  })

  await t.test('stops at a signal, all of it, and leaves no process', async (t) => {
    platform.child.kill('SIGINT')
    t.equal(await platform.ended, 0)
    t.notMatch(await readFile(join(folder, 'keepsake.log'), 'utf8'), /gave up waiting|could not close/)
    t.strictSame(processesOf(folder), [])
    t.equal(await readDemo(folder), undefined)
    t.equal(await reaches(`${demo.base_url}/health`), 'nothing')
  })
})

t.test('a database that another version made is named, with what to do', async (t: Test) => {
  const url = await emptyDatabase(t)
  await query(
    url,
    `create table schema_migrations (name text, checksum text, applied_at timestamptz);
      insert into schema_migrations values ('0001_foundation.sql', 'of another past')`,
  )
  const given = startProcess(t, folder, { KEEPSAKE_DATABASE_URL: url })
  await t.rejects(given.ready(), /ended with 1:/)
  t.match(
    given.output(),
    'The database that KEEPSAKE_DATABASE_URL names was made by another version of this repository',
  )
  t.match(given.output(), /name an empty database and begin a new folder[\s\S]*0001_foundation.sql was changed/)

  const log = quietLog()
  const embedded = await startEmbeddedPostgres({ dataDir: join(folder, 'postgres'), log })
  t.teardown(() => embedded.stop())
  await query(embedded.url, `update schema_migrations set checksum = 'of another past' where name ~ '^0001'`)
  await embedded.stop()
  const own = startProcess(t, folder)
  await t.rejects(own.ready(), /ended with 1:/)
  t.match(own.output(), `The database of ${folder} was made by another version of this repository`)
  t.match(own.output(), /or begin a new folder[\s\S]*0001_foundation.sql was changed/)
})

async function query(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(text)
  } finally {
    await client.end()
  }
}

/** All but what each run has of its own. */
const withoutRun = ({ pid: _, page_link: __, database_url: ___, ...rest }: Demo) => rest
