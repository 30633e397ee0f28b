import { randomUUID } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import t from 'tap'
import { parseId } from '../../lib/contract/ids.ts'
import { checkStream } from '../../local/demo/check-stream.ts'
import { signIn, untilConverted } from '../../local/demo/client.ts'
import type { Demo } from '../../local/demo-file.ts'
import { clip } from '../support/clips.ts'
import { eventually } from '../support/eventually.ts'
import { type PlatformProcess, processesOf, startProcess } from '../support/platform-process.ts'
import { withSampleMusic } from '../support/samples.ts'

/**
 * The way of a video, killed with -9 at the arrows between programs, one after the other in one and the same folder: each
 * start repairs what the one before left, and is itself killed one step further on. At the end the books are checked.
 * Each program alone is killed at its other steps in its own tests: `test/api/features/media/upload-crash.ts`,
 * `test/api/worker/crash.ts`, `test/operator/main.ts`, `test/jobs/transcode/interruption.ts`. This is a long file: 5
 * starts of the platform and some 7 conversions.
 */

/** Before a media item is recorded. One that is recorded without an answer is in `test/api/features/media/upload-crash.ts`. */
const REQUESTS = ['merge.object-completed']
/**
 * Each of them loses the cluster in the same process, which a worker that dies alone does not. With it goes whatever the
 * operator had made of a resource, so one place in the operator stands for all.
 */
const LATER = ['relay.reacted', 'operator.status-applied']
const JOBS = ['job.manifest-written']

const folder = await mkdtemp(join(tmpdir(), 'keepsake-crash-'))
t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }))
await withSampleMusic(folder)
const short = { bytes: await readFile(await clip('short')), seconds: 0.5 }
/** Only what takes long can be played before its end. */
const early = { bytes: await readFile(await clip('early')), seconds: 13 }
let demo: Demo
let token: string
const organization = () => demo.organizations[0]?.org_id ?? ''
const within = (base: string) => `${base}/api/media/${organization()}`

/** What somebody wants to upload, and the request they repeat until it is answered. */
interface Wish {
  filename: string
  seconds: number
  ask(): Promise<Response>
}
interface Answer {
  status: number
  mediaId: string | undefined
}
const wishes: Wish[] = []
/** By filename: what was answered with success. */
const acknowledged = new Map<string, string>()

function wishSingle(name: string, { bytes, seconds } = short): Wish {
  const filename = `${name}.mp4`
  const key = randomUUID()
  const ask = () => {
    const form = new FormData()
    form.set('file', new File([new Uint8Array(bytes)], filename, { type: 'video/mp4' }))
    const headers = { Authorization: `Bearer ${token}`, 'Idempotency-Key': key }
    return fetch(`${within(demo.base_url)}/single`, { method: 'POST', headers, body: form })
  }
  const wish = { filename, seconds, ask }
  wishes.push(wish)
  return wish
}

/** In two chunks, which are sent already: what may go unanswered is the merge. */
async function wishMerge(name: string): Promise<Wish> {
  const filename = `${name}.mp4`
  const { bytes, seconds } = short
  const half = Math.ceil(bytes.length / 2)
  const client = await signIn(demo.base_url, demo.accounts.member)
  const path = `/api/media/${organization()}`
  const sizes = { file_size_bytes: bytes.length, chunk_size_bytes: half }
  const request = { filename, mime_type: 'video/mp4', ...sizes }
  const { upload_id } = (await client.call('POST', `${path}/upload`, request)) as { upload_id: string }
  for (const index of [1, 0]) {
    await client.put(`${path}/upload/${upload_id}/${index}`, bytes.subarray(index * half, (index + 1) * half))
  }
  const ask = () => {
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }
    return fetch(`${within(demo.base_url)}/merge`, { method: 'POST', headers, body: JSON.stringify({ upload_id }) })
  }
  const wish = { filename, seconds, ask }
  wishes.push(wish)
  return wish
}

/** Undefined when nobody answered. */
async function ask(wish: Wish): Promise<Answer | undefined> {
  try {
    const response = await wish.ask()
    const { data } = (await response.json()) as { data?: { media_id: string } }
    if (response.ok && data) acknowledged.set(wish.filename, data.media_id)
    return { status: response.status, mediaId: data?.media_id }
  } catch {
    return undefined
  }
}

/** The database in the folder, as its superuser. */
async function query<T extends object>(sql: string): Promise<T[]> {
  const data = join(folder, 'postgres')
  const password = await readFile(join(data, 'keepsake.password'), 'utf8')
  const port = (await readFile(join(data, 'postmaster.pid'), 'utf8')).split('\n')[3]
  const client = new pg.Client(`postgres://postgres:${password}@127.0.0.1:${port}/keepsake`)
  await client.connect()
  try {
    return (await client.query(sql)).rows as T[]
  } finally {
    await client.end()
  }
}

/** As if we had waited as long as everything lasts that belongs to somebody who is dead. */
async function letTimePass(): Promise<void> {
  await query(`update idempotency_keys set locked_until = now() - interval '1 second' where state = 'running'`)
  await query(`update uploads set merge_lease_until = now() where state = 'merging'`)
  await query('update outbox set next_attempt_at = now() where published_at is null')
  await query(`update object_intents set created_at = now() - interval '4 hours'`)
}

async function log(): Promise<string> {
  return readFile(join(folder, 'keepsake.log'), 'utf8')
}
const killedJobs = async () =>
  (await log()).split('\n').filter((l) => /"container failed"/.test(l) && /"signal":9/.test(l))

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Resolves with how the platform ended, or fails: a failpoint that nobody reaches shows nothing. */
const endOf = (platform: PlatformProcess) =>
  Promise.race([platform.ended, sleep(120_000, 'still running', { ref: false })])

/** False when it died before it was ready: a failpoint may be reached by what is repaired at the start. */
async function isReady(platform: PlatformProcess): Promise<boolean> {
  try {
    demo = await platform.ready()
  } catch {
    return false
  }
  token ??= (await signIn(demo.base_url, demo.accounts.member)).token
  return true
}

function killedAt(place: string) {
  t.test(`the platform is killed at ${place}`, async (t) => {
    const platform = startProcess(t, folder, { KEEPSAKE_FAILPOINT: place })
    const isUp = await isReady(platform)
    t.ok(isUp || LATER.includes(place), 'ready before it dies', { output: platform.output() })
    if (isUp) {
      const wish = place.startsWith('merge.') ? await wishMerge(place) : wishSingle(place)
      const answer = await ask(wish)
      t.ok(answer === undefined || answer.status === 201, `answered ${answer?.status}`)
      if (REQUESTS.includes(place)) t.equal(answer, undefined, 'dies before it has answered')
    }
    t.equal(await endOf(platform), 'SIGKILL', 'at the place', { output: platform.output() })
  })
}

for (const place of REQUESTS) killedAt(place)

for (const place of JOBS) {
  t.test(`a job is killed at ${place}, and the platform after it`, async (t) => {
    const before = (await killedJobs()).length
    const platform = startProcess(t, folder, { KEEPSAKE_FAILPOINT: place })
    t.ok(await isReady(platform), 'starts', { output: platform.output() })
    await letTimePass()
    t.match(await ask(wishSingle(place)), { status: 201 })
    await eventually(`a job that died at ${place}`, async () => (await killedJobs()).length > before, 120_000)
    t.equal(platform.child.exitCode ?? platform.child.signalCode, null, 'the platform lives on without it')
    platform.child.kill('SIGKILL')
    t.equal(await platform.ended, 'SIGKILL')
  })
}

// After the jobs: from now on there is always something to repair, and much of this happens before anybody asks.
for (const place of LATER) killedAt(place)

t.test('the last start', async (t) => {
  const platform = startProcess(t, folder)
  t.ok(await isReady(platform), 'starts', { output: platform.output() })
  await letTimePass()

  await t.test('who got no answer repeats the request, and gets one answer however often', async (t) => {
    const promised = new Map(acknowledged)
    for (const wish of wishes) {
      const answers = [await ask(wish), await ask(wish)]
      const mediaId = answers[0]?.mediaId
      for (const answer of answers) {
        t.match(answer?.status, /^20[01]$/, wish.filename)
        t.equal(answer?.mediaId, promised.get(wish.filename) ?? mediaId, wish.filename)
      }
    }
    t.equal(acknowledged.size, wishes.length)
  })

  await t.test('a job that is killed while all else lives on is done again', async (t) => {
    const before = (await killedJobs()).length
    // What was left to do may be done already, on a fast machine; and what was seen running may have just ended.
    t.match(await ask(wishSingle('job-killed', early)), { status: 201 })
    await eventually('a killed job', async () => {
      const running = processesOf(folder).find((line) => /node\S* \S*jobs\/transcode\/main/.test(line))
      if (running) killIfThere(Number.parseInt(running, 10))
      for (let looks = 0; running && looks < 20 && (await killedJobs()).length === before; looks++) await sleep(50)
      return (await killedJobs()).length > before
    })
  })

  await t.test('everything is converted and can be played', async (t) => {
    const client = await signIn(demo.base_url, demo.accounts.member)
    for (const { filename, seconds } of wishes) {
      const media = await untilConverted(client, organization(), acknowledged.get(filename) ?? '', () => {})
      const { renditions } = await checkStream(media.variants.hls_master_url ?? '', seconds)
      t.ok(renditions.length > 0, filename)
    }
  })

  await t.test('of every upload there is one media, one event of each kind, one entry in the audit log', async (t) => {
    await eventually('all is published', async () => {
      const [left] = await query<{ n: number }>('select count(*)::int n from outbox where published_at is null')
      return left?.n === 0
    })
    const rows = await query<{ id: string; filename: string; status: string; audits: number; events: string[] }>(
      `select id, original_filename filename, upload_status status,
        (select count(*)::int from audit_log where action = 'MEDIA_UPLOAD' and resource_id = media.id::text) audits,
        (select array_agg(type order by type) from outbox where aggregate_id = media.id) events
      from media order by original_filename`,
    )
    const wanted = [...acknowledged].map(([filename, mediaId]) => ({
      id: parseId('media', mediaId),
      filename,
      status: 'completed',
      audits: 1,
      events: ['MediaTranscoded', 'MediaUploaded'],
    }))
    t.strictSame(
      rows,
      wanted.sort((a, b) => (a.filename < b.filename ? -1 : 1)),
    )
    const [audits] = await query<{ n: number }>(`select count(*)::int n from audit_log where action = 'MEDIA_UPLOAD'`)
    t.equal(audits?.n, wishes.length)
  })

  await t.test('no upload is open, and nothing is stored that belongs to nobody', async (t) => {
    t.strictSame(await query(`select id, state from uploads where state <> 'completed'`), [])
    await eventually('housekeeping', async () => (await query('select * from object_intents')).length === 0, 120_000)
    const ids = new Set((await query<{ id: string }>('select id from media')).map(({ id }) => id))
    const files = (path: string) => readdir(join(folder, 'objects', path), { recursive: true, withFileTypes: true })
    const objects = (await files('objects')).filter((f) => f.isFile()).map((f) => join(f.parentPath, f.name))
    // A file of the sample music may be left by a death before its row, as `addTrack` says.
    // The music of the demo, and the anchors of the audit log.
    const uploaded = objects.filter((path) => !/\/objects\/(tracks\/[^/]+\/audio|audit\/.+)~object$/.test(path))
    const owners = new Set(uploaded.map((path) => /\/org\/[^/]+\/media\/([^/]+)\//.exec(path)?.[1] ?? path))
    t.strictSame(owners, ids)
    for (const path of ['uploads', 'completing']) t.strictSame(await files(path), [], path)
  })

  platform.child.kill('SIGTERM')
  t.equal(await platform.ended, 0)
  t.strictSame(processesOf(folder), [])
})
