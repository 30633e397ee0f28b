import pg from 'pg'
import type { Tx } from '../../api/db/db.ts'
import { drizzle } from '../../api/db/orm.ts'
import * as schema from '../../api/db/schema/index.ts'
import { TARGETS } from '../../api/features/retention/targets.ts'
import type { Due } from '../../api/retention/target.ts'
import { newUuid } from '../../lib/contract/ids.ts'
import type { RetentionRun } from '../../lib/contract/retention.ts'
import { testDatabase } from '../support/database.ts'

/**
 * How Postgres finds what is due among `BENCH_ROWS` (10,000,000) rows of each table that policies are about (events: a tenth),
 * and among a hundredth of that: every statement of the count and of a claim of 100, explained as the program sends it. 1,000
 * rows are due in both, so a statement that reads more buffers of the large table reads what is not due. Needs about 1.2 GiB
 * of disk for each 1,000,000 rows of all tables. Of the indexes of media, those that nothing of retention can use are dropped.
 */
const ROWS = Number(process.env['BENCH_ROWS'] ?? 10_000_000)
const TABLES = (process.env['BENCH_TABLES'] ?? 'media,notifications,uploads,media_pieces,events').split(',')
const DUE = 1000
const USED = /pkey|due|leased|to_release|to_cool|unmeasured/
const [org, user, event] = [newUuid(), newUuid(), newUuid()]

interface Node {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Shared Hit Blocks': number
  'Shared Read Blocks': number
  'Rows Removed by Filter'?: number
  'Actual Loops': number
  Plans?: Node[]
}
interface Explained {
  buffers: number
  scans: string
  removed: number
}
const RULES: Record<string, RetentionRun['rules']> = {
  EventArchive: [
    { after: 'P2Y', action: 'moveToTier', tier: 'cold' },
    { after: 'P7Y', action: 'purge' },
  ],
}

const small = await explained(Math.ceil(ROWS / 100))
const large = await explained(ROWS)
const lines = [...large].map(([name, { buffers, scans, removed }]) => {
  const of = small.get(name)
  return `| ${name} | ${of?.buffers ?? '–'} | ${buffers} | ${removed} | ${scans} |`
})
console.log(
  `Among ${Math.ceil(ROWS / 100)} rows and among ${ROWS}, ${DUE} of them due; ${TABLES.join(', ')}\n\n| statements | buffers | buffers, large | rows read and left out | read by |\n|---|---|---|---|---|\n${lines.join('\n')}\n`,
)

async function explained(rows: number): Promise<Map<string, Explained>> {
  const ends: (() => Promise<void>)[] = []
  const database = await testDatabase({ teardown: (done) => void ends.push(done) })
  try {
    await fill(database.admin, rows)
    const found = new Map<string, Explained>()
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    for (const target of TARGETS) {
      if (!TABLES.includes(tableOf(target.name))) continue
      const rules = RULES[target.name] ?? [{ after: 'P30D', action: 'purge' }]
      const due: Due = { at: new Date().toISOString(), rules }
      const works: [string, (tx: Tx) => Promise<unknown>][] = [
        ['total', (tx) => target.total(tx)],
        ['count', (tx) => target.countDue(tx, due)],
        ['claim', (tx) => target.claim(tx, due, { limit: 100, seconds: 600, token: newUuid() })],
      ]
      for (const [what, work] of works) found.set(`${target.name}: ${what}`, await explain(client, work))
    }
    await client.end()
    return found
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

function tableOf(target: string): string {
  const tables: Record<string, string> = {
    ...{ MediaTrash: 'media', Notifications: 'notifications', Uploads: 'uploads' },
    ...{ PieceCache: 'media_pieces', EventArchive: 'events' },
  }
  return tables[target] ?? ''
}

/** Every statement that `work` sends is explained, and then sent, in a transaction that comes to nothing. */
async function explain(client: pg.Client, work: (tx: Tx) => Promise<unknown>): Promise<Explained> {
  const plans: Node[] = []
  const wrapped = {
    async query(given: { text: string; name?: string }, values?: unknown[]) {
      await client.query('savepoint before')
      const { rows } = await client.query(`explain (analyze, buffers, format json) ${given.text}`, values)
      await client.query('rollback to before')
      plans.push(rows[0]['QUERY PLAN'][0].Plan)
      return client.query(given as never, values as never)
    },
  }
  await client.query('begin; set local role keepsake_worker')
  try {
    await work(drizzle(wrapped as never, { schema, casing: 'snake_case' }) as unknown as Tx)
  } finally {
    await client.query('rollback')
  }
  const nodes = plans.flatMap(nodesOf)
  const scans = nodes.filter((node) => TABLES.includes(node['Relation Name'] ?? '') && /Scan/.test(node['Node Type']))
  return {
    buffers: plans.reduce((sum, plan) => sum + plan['Shared Hit Blocks'] + plan['Shared Read Blocks'], 0),
    removed: scans.reduce((sum, node) => sum + (node['Rows Removed by Filter'] ?? 0) * node['Actual Loops'], 0),
    scans: [
      ...new Set(scans.map((node) => `${node['Node Type']} ${indexesIn(node).join('+') || node['Relation Name']}`)),
    ].join(', '),
  }
}

function nodesOf(node: Node): Node[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)]
}

function indexesIn(node: Node): string[] {
  return nodesOf(node).flatMap((one) => one['Index Name'] ?? [])
}

async function fill(admin: pg.Pool, rows: number): Promise<void> {
  const client = await admin.connect()
  const of = (text: string, count = rows) => client.query(`${text} from generate_series(1, ${count}) n`)
  /** The age of row n: some are due, evenly among the others. */
  const age = (due: string, young: string, count = rows) =>
    `now() - case when n % ${Math.max(1, Math.floor(count / DUE))} = 0 then interval '${due}' else interval '${young}' end - n * interval '1 millisecond'`
  await client.query('set session_replication_role = replica')
  try {
    await client.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [user, 'test', user])
    await client.query('insert into organizations (id, name) values ($1, $2)', [org, 'Friends'])
    await client.query(`insert into events (id, org_id, owner_id, title, start_at) values ($1, $2, $3, 'e', now())`, [
      event,
      org,
      user,
    ])
    const fills: Record<string, () => Promise<unknown>> = {
      // A tenth is in the trash.
      media: () =>
        of(`insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
            deleted_at, deleted_by)
          select gen_random_uuid(), '${org}', '${user}', 'f', 'image/jpeg', 'image', 7, 'completed',
            case when n % 10 = 0 then ${age('40 days', '3 days')} end, case when n % 10 = 0 then '${user}'::uuid end`),
      notifications: () =>
        of(`insert into notifications (id, org_id, template, event_id, user_id, comment_id, created_at)
          select gen_random_uuid(), '${org}', 'Mention.v1', '${event}', '${user}', gen_random_uuid(), ${age('800 days', '3 days')}`),
      uploads: () =>
        of(`insert into uploads (id, org_id, uploader_id, media_id, layout, filename, mime_type, file_size_bytes,
            chunk_size_bytes, total_chunks, expires_at, absolute_expires_at, state, storage_released_at)
          select gen_random_uuid(), '${org}', '${user}', gen_random_uuid(), 'staged', 'f', 'video/mp4', 1, 1, 1,
            ${age('40 days', '3 days')}, ${age('40 days', '3 days')}, 'completed',
            case when n % ${Math.max(1, Math.floor(rows / DUE))} = 0 then null else now() end`),
      media_pieces: () =>
        of(`insert into media_pieces (media_id, org_id, used_by, used_at, bytes, measured_at)
          select gen_random_uuid(), '${org}', '${user}', ${age('40 days', '3 days')}, 5, now()`),
      events: () =>
        of(
          `insert into events (id, org_id, owner_id, title, start_at, status, archived_at)
          select gen_random_uuid(), '${org}', '${user}', 'e', now(), 'archived', ${age('8 years', '1 year', Math.ceil(rows / 10))}`,
          Math.ceil(rows / 10),
        ),
    }
    for (const table of TABLES) {
      const { rows: indexes } = await client.query<{ name: string; text: string }>(
        `select c.relname as name, pg_get_indexdef(c.oid) as text from pg_index join pg_class c on c.oid = indexrelid
          where indrelid = $1::regclass and not exists (select from pg_constraint where conindid = indexrelid)`,
        [table],
      )
      for (const { name } of indexes) await client.query(`drop index ${name}`)
      await fills[table]?.()
      for (const { name, text } of indexes) if (table !== 'media' || USED.test(name)) await client.query(text)
    }
    await client.query(`vacuum analyze ${TABLES.join()}`)
  } finally {
    await client.query('set session_replication_role = origin')
    client.release()
  }
}
