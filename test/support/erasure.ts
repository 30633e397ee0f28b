import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import type pg from 'pg'
import { carryOut } from '../../api/features/erasure/saga.ts'
import { ERASE_STEPS } from '../../api/features.ts'
import type { Canary, EraseDeps, EraseStep } from '../../api/personal/part.ts'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import type { Cluster } from '../../lib/runtime/kube/cluster.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { TestApi } from './api.ts'
import { NAMESPACE } from './conversion-world.ts'
import { quietLog } from './quiet-log.ts'

/** What a worker has for its erasures, on the parts of an API under test. */
export const eraseDeps = (
  api: Pick<TestApi, 'config' | 'store' | 'database'>,
  cluster: Cluster,
  more: Partial<EraseDeps> = {},
): EraseDeps => ({
  db: api.database.worker,
  store: api.store,
  bus: { erase: () => Promise.resolve(0) },
  cluster,
  namespace: NAMESPACE,
  log: quietLog(),
  config: { ERASURE_KEY: api.config.ERASURE_KEY },
  ...more,
})

/** Carries an erasure out to its end, as the worker's queue does. */
export async function eraseWhole(
  deps: EraseDeps,
  id: Uuid,
  steps: readonly EraseStep[] = ERASE_STEPS,
  rounds = 20,
): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    if ((await carryOut(deps, steps, id)) === undefined) return
    await deps.db.inTransaction(
      {},
      async (tx) =>
        void (await tx.execute('update media set lease_at = now(); update highlights set purge_lease_until = null')),
    )
  }
  const { rows } = await deps.db.read({}, (tx) =>
    tx.execute(`select step, attempts, last_error from erasure_steps where state = 'pending'`),
  )
  throw new Error(`the erasure does not end: ${JSON.stringify(rows)}`)
}

// ---------------------------------------------------------------- canaries

/** Part of everything that the person leaves, so that it can be found however it was written down. */
const CORE = 'qzkanarie'

/** What a person fills fields with, by kind: signs that JSON, URLs and HTML write in another way are in the text. */
export interface Canaries {
  id: Uuid
  text: string
  /** The same without signs that separate folders. */
  filename: string
  email: string
  phone: string
  agent: string
  address: string
  token: string
  /** For columns of UUIDs. */
  uuid: Uuid
  subject: string
}

export const canariesOf = (id: Uuid): Canaries => ({
  id,
  text: `Käfer "${CORE}text" \\ <b>&amp; %41`,
  filename: `Käfer ${CORE}text`,
  email: `${CORE}mail@example.org`,
  phone: '+4915550987611',
  agent: `${CORE}agent/1.0`,
  address: '203.0.113.77',
  token: `${CORE}token`,
  uuid: newUuid(),
  subject: id,
})

const NEEDLES: Record<Canary, (c: Canaries) => string[]> = {
  text: () => [`${CORE}text`],
  email: () => [`${CORE}mail`],
  phone: ({ phone }) => [phone.slice(1)],
  agent: () => [`${CORE}agent`],
  address: ({ address }) => [address],
  token: ({ uuid }) => [`${CORE}token`, uuid, uuid.replaceAll('-', '')],
  id: ({ id }) => [id, id.replaceAll('-', ''), formatId('user', id)],
  subject: ({ subject }) => [subject],
}

/** Also as base64, whatever stands before it, and as hexadecimal. Everything is compared in lower case. */
function encoded(needle: string): string[] {
  const bytes = Buffer.from(needle)
  const base64 = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    // What depends on the neighbors is cut off.
    return text.slice(before === 0 ? 0 : before + 1, Math.floor(((before + bytes.length) * 8) / 6))
  })
  return [needle, bytes.toString('hex'), ...base64].map((one) => one.toLowerCase())
}

export const needlesOf = (canaries: Canaries, kinds = Object.keys(NEEDLES) as Canary[]): string[] => [
  ...new Set(kinds.flatMap((kind) => NEEDLES[kind](canaries).flatMap(encoded))),
]

/** `table.column`, for every column in which one of these is found, also in partitions and statistics. */
export async function findInDatabase(admin: pg.Pool, needles: readonly string[]): Promise<string[]> {
  const patterns = needles.map((one) => `%${one.replace(/[\\%_]/g, '\\$&')}%`)
  const { rows: columns } = await admin.query<{ place: string; name: string; column: string }>(`
    select format('%I.%I', n.nspname, c.relname) as place, c.relname as name, a.attname as column
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg_toast%' and c.relkind in ('r', 'm')
    order by 2, a.attnum`)
  const found: string[] = []
  for (const [place, of] of Map.groupBy(columns, (column) => column.place)) {
    const counts = of.map(({ column }, i) => `count(*) filter (where lower("${column}"::text) like any($1)) as n${i}`)
    const { rows } = await admin.query(`select ${counts.join(', ')} from ${place}`, [patterns])
    found.push(...of.flatMap(({ name, column }, i) => (Number(rows[0][`n${i}`]) > 0 ? [`${name}.${column}`] : [])))
  }
  await admin.query('analyze')
  const { rows } = await admin.query(
    `select distinct tablename || '.' || attname as column from pg_stats
      where (lower(most_common_vals::text) like any($1) or lower(histogram_bounds::text) like any($1))
        -- Of a table that has become empty Postgres keeps what it knew.
        and exists (select from pg_class c where c.relname = tablename and c.reltuples > 0)`,
    [patterns],
  )
  return [...new Set([...found, ...rows.map(({ column }) => column as string)])].sort()
}

/** Objects in whose key or bytes one of these is found; gzip is opened. */
export async function findInStore(store: ObjectStore, needles: readonly string[]): Promise<string[]> {
  const found: string[] = []
  for await (const { key } of store.list('')) {
    const bytes = await buffer((await store.get(key)).body)
    const isGzip = bytes[0] === 0x1f && bytes[1] === 0x8b
    const text = `${key}\n${(isGzip ? gunzipSync(bytes) : bytes).toString('latin1')}`.toLowerCase()
    if (needles.some((one) => text.includes(one))) found.push(key)
  }
  return found
}

/** Files below a folder in whose name or bytes one of these is found: also what is no object, or not yet. */
export async function findInFolder(folder: string, needles: readonly string[]): Promise<string[]> {
  const found: string[] = []
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const text = `${path}\n${(await readFile(path)).toString('latin1')}`.toLowerCase()
    if (needles.some((one) => text.includes(one))) found.push(path.slice(folder.length))
  }
  return found
}
