import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { listMigrations, migrate } from '../../api/db/migrate.ts'
import { databaseBefore } from '../support/older-database.ts'
import { addOldRows, OLD, oldId } from '../support/older-rows.ts'
import { quietLog } from '../support/quiet-log.ts'

/**
 * How long each migration since 0045 keeps programs waiting, on an installation with `BENCH_ROWS` (200,000) rows of media,
 * audit log, notifications, comments and items of albums, and a tenth of that of highlights, events and uploads: beside every file,
 * connections read and write one row of each large table again and again, and their longest waits are noted.
 */
const ROWS = Number(process.env['BENCH_ROWS'] ?? 200_000)
const FOLDER = fileURLToPath(new URL('../../api/db/migrations/', import.meta.url))
const FIRST = '0045_sessions.sql'
const TARGET_MS = 1000
const MINE = {
  media: OLD.photo,
  highlights: OLD.highlight,
  events: OLD.event,
  comments: OLD.comment,
  uploads: OLD.upload,
}

const teardowns: (() => unknown)[] = []
const here = { teardown: (done: () => unknown) => void teardowns.push(done) }
const { admin, url } = await databaseBefore(here as never, FIRST)
try {
  await fill()
  console.log(await measure())
} finally {
  for (const done of teardowns.reverse()) await done()
}

async function fill(): Promise<void> {
  await addOldRows(admin)
  const { org, owner, event, album, photo, highlight } = OLD
  const tenth = Math.ceil(ROWS / 10)
  await admin.query('set session_replication_role = replica')
  const many = (text: string, count = ROWS) => admin.query(`${text} from generate_series(1, ${count}) n`)
  await many(`insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status)
    select gen_random_uuid(), '${org}', '${owner}', 'f.jpg', 'image/jpeg', 'image', 1000, 'completed'`)
  await many(`insert into audit_log (id, org_id, actor_id, action, resource_type, resource_id, result, ip_address, occurred_at)
    select gen_random_uuid(), '${org}', gen_random_uuid(), 'LOGIN', 'session', gen_random_uuid()::text, 'success', '192.0.2.1',
      now() - n * interval '1 minute'`)
  await many(`insert into notifications (id, org_id, template, event_id, user_id, comment_id)
    select gen_random_uuid(), '${org}', 'Mention.v1', '${event}', '${owner}', gen_random_uuid()`)
  await many(`insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body)
    select gen_random_uuid(), '${org}', '${event}', 'meta', '${event}', 'event', '${owner}', 'Remember?'`)
  await many(`insert into album_media (album_id, media_id, org_id, position, listed, added_by)
    select '${album}', gen_random_uuid(), '${org}', n, true, '${owner}'`)
  await many(
    `insert into events (id, org_id, owner_id, title, start_at, status, archived_at)
    select gen_random_uuid(), '${org}', '${owner}', 'e', now(), 'archived', now()`,
    tenth,
  )
  await many(
    `insert into uploads (id, org_id, uploader_id, media_id, layout, filename, mime_type, file_size_bytes, chunk_size_bytes,
      total_chunks, expires_at, absolute_expires_at, state)
    select gen_random_uuid(), '${org}', '${owner}', gen_random_uuid(), 'staged', 'f', 'video/mp4', 1, 1, 1, now(), now(), 'completed'`,
    tenth,
  )
  await many(
    `insert into highlights (id, org_id, created_by, title, transition, orientation, fill, ken_burns, show_title, captions,
      skip_broken, estimated_duration_sec, status, render_state, manifest, render_admitted_at, finished_at)
    select ('00000000-0000-4000-a000-' || lpad(to_hex(n), 12, '0'))::uuid, '${org}', '${owner}', 't', 'fade', 'auto', 'blur', true, true, 'none', true, 12, 'completed',
      'succeeded', (select manifest from highlights where id = '${highlight}'), now() - interval '2 days', now() - interval '2 days'`,
    tenth,
  )
  await many(
    `insert into highlight_items (highlight_id, position, org_id, media_id, source_id, uploader_id, type, seconds, caption)
    select ('00000000-0000-4000-a000-' || lpad(to_hex(1 + n % ${tenth}), 12, '0'))::uuid, n / ${tenth}, '${org}', gen_random_uuid(), '${photo}', '${owner}', 'image', 4, ''`,
    tenth * 5,
  )
  await admin.query('set session_replication_role = origin')
  await admin.query('vacuum analyze')
}

interface Wait {
  ms: number
  on: string
}

async function measure(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-migrations-'))
  here.teardown(() => rm(folder, { recursive: true }))
  const names = (await listMigrations()).map(({ name }) => name)
  await cp(FOLDER, folder, { recursive: true, filter: (path) => path === FOLDER || path < join(FOLDER, FIRST) })
  const probes = await startProbes()
  const lines: string[] = []
  for (const name of names.filter((name) => name >= FIRST)) {
    await cp(join(FOLDER, name), join(folder, name))
    probes.forget()
    const started = performance.now()
    await migrate({ url, log: quietLog(), folder })
    const took = performance.now() - started
    // What waits at the end gets through.
    await sleep(100)
    const { read, write } = probes.longest()
    const isMet = Math.max(read.ms, write.ms) <= TARGET_MS
    if (!isMet) process.exitCode = 1
    lines.push(
      `| ${name} | ${took.toFixed(0)} | ${read.ms.toFixed(0)} ${read.on} | ${write.ms.toFixed(0)} ${write.on}${isMet ? '' : ', MISSED'} |`,
    )
  }
  await probes.stop()
  return `${ROWS} rows; milliseconds\n\n| migration | took | longest wait of a read | of a write (target ${TARGET_MS}) |\n|---|---|---|---|\n${lines.join('\n')}\n`
}

/** One connection for each statement, as programs of the version before have them. */
async function startProbes() {
  let n = 100
  const statements: { on: string; kind: 'read' | 'write'; text: () => string }[] = [
    ...Object.entries(MINE).flatMap(([table, id]) => [
      { on: table, kind: 'read' as const, text: () => `select from ${table} where id = '${id}'` },
      {
        on: table,
        kind: 'write' as const,
        text: () => `update ${table} set created_at = created_at where id = '${id}'`,
      },
    ]),
    {
      ...{ on: 'audit_log', kind: 'write' },
      text: () =>
        `insert into audit_log (id, action, resource_type, result) values (gen_random_uuid(), 'LOGIN', 'session', 'success')`,
    },
    {
      ...{ on: 'notifications', kind: 'write' },
      text: () => `update notifications set recorded = 1 where id = '${oldId(21)}'`,
    },
    {
      ...{ on: 'album_media', kind: 'write' },
      text: () =>
        `update album_media set caption = 'c${n++}' where album_id = '${OLD.album}' and media_id = '${OLD.photo}'`,
    },
    { on: 'users', kind: 'read', text: () => `select from users where id = '${OLD.owner}'` },
    { on: 'users', kind: 'write', text: () => `update users set updated_at = now() where id = '${OLD.owner}'` },
    {
      on: 'sessions',
      kind: 'write',
      text: () => `update sessions set last_seen_at = now() where user_id = '${OLD.owner}'`,
    },
  ]
  const longest = { read: { ms: 0, on: '' } as Wait, write: { ms: 0, on: '' } as Wait }
  const running = { stopped: false }
  const probing = statements.map(async ({ on, kind, text }) => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    for (; !running.stopped; await sleep(10)) {
      const started = performance.now()
      await client.query(text())
      const ms = performance.now() - started
      if (ms > longest[kind].ms) longest[kind] = { ms, on }
    }
    await client.end()
  })
  return {
    forget() {
      longest.read = { ms: 0, on: '' }
      longest.write = { ms: 0, on: '' }
    },
    longest: () => ({ ...longest }),
    async stop() {
      running.stopped = true
      await Promise.all(probing)
    },
  }
}
