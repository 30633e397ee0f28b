import { readFile } from 'node:fs/promises'
import { newUuid } from '../../lib/contract/ids.ts'
import { testDatabase } from '../support/database.ts'
import { median } from './world.ts'

/**
 * What triggers and row-level security of a table cost an insert: CPU of one backend, with the guards of erased people beside
 * the same without them, and of the audit log with its policies beside the same without. Rounds alternate, each a transaction of
 * `BENCH_INSERTS` (2,000) prepared single-row statements that comes to nothing; medians of `BENCH_ROUNDS` (11).
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 11)
const INSERTS = Number(process.env['BENCH_INSERTS'] ?? 2000)
const [org, user, event, album] = [newUuid(), newUuid(), newUuid(), newUuid()]

const teardowns: (() => Promise<void>)[] = []
const { admin } = await testDatabase({ teardown: (done) => void teardowns.unshift(done) })
try {
  console.log(await measure())
} finally {
  for (const done of teardowns) await done()
}

/** An insert per table that has a guard, and what takes the guard away. */
function cases(): { table: string; insert: string; without: string[] }[] {
  const triggers = (table: string, ...names: string[]) =>
    names.map((name) => `alter table ${table} disable trigger ${name}`)
  const person = `'${user}'`
  return [
    {
      table: 'media',
      insert: `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
        values (gen_random_uuid(), '${org}', ${person}, 'f', 'image/jpeg', 'image', 1)`,
      without: triggers('media', 'refuse_closed'),
    },
    {
      table: 'comments',
      insert: `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body)
        values (gen_random_uuid(), '${org}', '${event}', 'meta', '${event}', 'event', ${person}, 'b')`,
      without: triggers('comments', 'refuse_closed'),
    },
    {
      table: 'album_media',
      insert: `with added as (insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
          values (gen_random_uuid(), '${org}', ${person}, 'f', 'image/jpeg', 'image', 1) returning id)
        insert into album_media (album_id, media_id, org_id, position, listed, added_by)
        select '${album}', id, '${org}', 0, true, ${person} from added`,
      without: [...triggers('album_media', 'refuse_closed')],
    },
    {
      table: 'events',
      insert: `insert into events (id, org_id, owner_id, title, start_at)
        values (gen_random_uuid(), '${org}', ${person}, 't', now())`,
      without: triggers('events', 'refuse_closed'),
    },
    {
      table: 'reactions',
      insert: `insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji, audience)
        values (gen_random_uuid(), '${org}', '${event}', 'meta', gen_random_uuid(), ${person}, '🎉', 'event')`,
      without: triggers('reactions', 'refuse_closed'),
    },
    {
      table: 'timeline_items',
      insert: `insert into timeline_items (id, org_id, type, actor_id, ref_type, ref_id, at)
        values (gen_random_uuid(), '${org}', 'comment_posted', ${person}, 'comment', gen_random_uuid(), now())`,
      without: triggers('timeline_items', 'skip_closed'),
    },
    {
      table: 'notifications',
      insert: `insert into notifications (id, org_id, template, event_id, user_id, comment_id)
        values (gen_random_uuid(), '${org}', 'Mention.v1', '${event}', ${person}, gen_random_uuid())`,
      without: [
        'alter table notifications drop constraint notifications_comment_id_fkey',
        ...triggers('notifications', 'skip_closed'),
      ],
    },
    {
      table: 'audit_log, as keepsake_api',
      insert: `insert into audit_log (id, action, resource_type, result, details, request_id)
        values (gen_random_uuid(), 'LOGIN', 'session', 'success', '{}', 'req')`,
      without: ['alter table audit_log disable row level security', 'set local role keepsake_api'],
    },
  ]
}

async function measure(): Promise<string> {
  await admin.query('insert into organizations (id, name) values ($1, $2)', [org, 'Friends'])
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [user, 'test', user])
  await admin.query(`insert into events (id, org_id, owner_id, title, start_at) values ($1, $2, $3, 'e', now())`, [
    ...[event, org, user],
  ])
  await admin.query(`insert into albums (id, org_id, owner_id, title) values ($1, $2, $3, 'a')`, [album, org, user])
  const lines: string[] = []
  for (const { table, insert, without } of cases()) {
    // What a case needs on both sides is no guard.
    const both = without.filter((text) => /drop constraint|set local/.test(text))
    const guards = without.filter((text) => !both.includes(text))
    const sides = [[], guards].map((texts) => [...texts, ...both])
    const costs = sides.map((): number[] => [])
    for (let round = 0; round <= ROUNDS; round++) {
      for (const n of round % 2 ? [1, 0] : [0, 1]) {
        const cost = await costOf(insert, sides[n] ?? [])
        if (round > 0) costs[n]?.push(cost)
      }
    }
    const [guarded = 0, bare = 0] = costs.map(median)
    lines.push(
      `| ${table} | ${bare.toFixed(0)} | ${guarded.toFixed(0)} | ${(guarded - bare).toFixed(0)} | ${(guarded / bare).toFixed(2)} |`,
    )
  }
  return [
    `Microseconds of CPU of the backend per insert, medians of ${ROUNDS} alternating rounds of ${INSERTS}`,
    '',
    '| insert into | without the guard | with it | difference | ratio |',
    '|---|---|---|---|---|',
    ...lines,
    '',
    await listed(),
  ].join('\n')
}

/** Microseconds of CPU of the backend per insert. */
async function costOf(insert: string, before: readonly string[]): Promise<number> {
  const client = await admin.connect()
  try {
    const { rows } = await client.query('select pg_backend_pid() as pid')
    await client.query('begin')
    for (const text of before) await client.query(text)
    await client.query(`do $$ begin for n in 1..50 loop ${insert}; end loop; end $$`)
    const started = await cpuOf(rows[0].pid)
    // In the backend: single statements, without the way to it. Foreign keys are looked at, too.
    await client.query(`do $$ begin for n in 1..${INSERTS} loop ${insert}; end loop; end $$`)
    return ((await cpuOf(rows[0].pid)) - started) / INSERTS
  } finally {
    await client.query('rollback')
    client.release()
  }
}

/** Nanoseconds are in schedstat; the other figures of Linux count in hundredths of a second. */
async function cpuOf(pid: number): Promise<number> {
  return Number((await readFile(`/proc/${pid}/schedstat`, 'utf8')).split(' ')[0]) / 1000
}

async function listed(): Promise<string> {
  const { rows } =
    await admin.query(`select tgname as name, string_agg(tgrelid::regclass::text, ', ' order by tgrelid::regclass::text) as tables
    from pg_trigger where not tgisinternal and tgname ~ 'closed' and tgrelid::regclass::text !~ '_before$|_\\d{8}$'
    group by 1 order by 1`)
  return rows.map(({ name, tables }) => `${name}: ${tables}`).join('\n')
}
