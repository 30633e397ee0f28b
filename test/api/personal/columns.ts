import t from 'tap'
import { sql } from '../../../api/db/orm.ts'
import { ERASE_STEPS, FEATURES, PERSONAL_PARTS } from '../../../api/features.ts'
import { type PersonalColumn, PHASES } from '../../../api/personal/part.ts'
import { changeAll } from '../../../api/personal/queries.ts'
import { testDatabase } from '../../support/database.ts'

/** What is kept of people, as the parts of the program say it, against what the database has. */
const { admin, worker } = await testDatabase(t)

interface Column {
  column: string
  /** Could hold text of a person, or the id of one. */
  isFree: boolean
  isPerson: boolean
}

/** Not from information_schema, which hides columns and repeats partitions. */
const { rows: columns } = await admin.query<Column>(`
  select c.relname || '.' || a.attname as column,
    exists (select from pg_constraint k where k.conrelid = c.oid and k.contype = 'f' and k.conkey = array[a.attnum]
      and k.confrelid = 'users'::regclass) as "isPerson",
    -- Numbers, times and truths say nothing by themselves; nor do closed lists, references, and the ids of a table's rows.
    not (b.typcategory in ('N', 'D', 'B', 'T') or a.attname in ('id', 'org_id') and a.atttypid = 'uuid'::regtype)
      and not exists (select from pg_constraint k where k.conrelid = c.oid and (
        k.contype = 'f' and k.conkey = array[a.attnum]
        or k.contype = 'c' and k.conkey = array[a.attnum] and pg_get_constraintdef(k.oid) like '% = ANY (ARRAY[%')) as "isFree"
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    join pg_type b on b.oid = a.atttypid
  where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'schema_migrations'
  order by 1`)

const tables = PERSONAL_PARTS.flatMap(({ personal }) => Object.entries(personal))
const entries = new Map<string, PersonalColumn>(
  tables.flatMap(([table, { columns }]) =>
    Object.entries(columns).map(([column, entry]) => [`${table}.${column}`, entry] as const),
  ),
)

t.test('every column that could hold something of a person has an entry', async (t) => {
  const wanted = columns.filter(({ isFree, isPerson }) => isFree || isPerson).map(({ column }) => column)
  t.ok(wanted.length > 100, 'columns were found')
  t.strictSame(
    wanted.filter((column) => !entries.has(column)),
    [],
    'a new column needs an entry in `personal` of its feature',
  )
})

t.test('every entry is of a column that is there and needs one', async (t) => {
  const known = new Map<string, Column>(columns.map((one) => [one.column, one]))
  t.strictSame(
    [...entries.keys()].filter((column) => !(known.get(column)?.isFree || known.get(column)?.isPerson)),
    [],
  )
})

t.test('a reference to a user says whether the id stays', async (t) => {
  const people = columns.filter(({ isPerson }) => isPerson).map(({ column }) => column)
  t.ok(people.length > 15)
  t.strictSame(
    people.filter((column) => !('person' in (entries.get(column) ?? {}))),
    [],
  )
})

t.test('every table is described once', async (t) => {
  const described = tables.map(([table]) => table).sort()
  const there = [...new Set(columns.map(({ column }) => column.split('.')[0]))].sort()
  t.strictSame(described, there)
})

t.test('every feature says what it keeps of people', async (t) => {
  for (const feature of FEATURES) {
    const [name = ''] = Object.keys(feature.tags)
    t.type(feature.personal, 'object', name)
    t.ok(Array.isArray(feature.erase), name)
    const holdsSomething = Object.values(feature.personal).some(({ columns }) =>
      Object.values(columns).some((entry) => 'erase' in entry),
    )
    if (holdsSomething) t.ok(feature.erase.length > 0, `${name}: what is kept can be erased`)
  }
})

t.test('steps have names of their own and a place in the order', async (t) => {
  const names = ERASE_STEPS.map(({ name }) => name)
  t.equal(new Set(names).size, names.length)
  for (const { name, phase } of ERASE_STEPS) {
    t.match(name, /^[a-z]+\.[a-z-]+$/)
    t.ok(PHASES.includes(phase), name)
  }
})

t.test('a step that changes rows in batches goes on until none is left', async (t) => {
  await admin.query(`insert into erasure_ledger (name) select lpad(to_hex(n), 64, '0') from generate_series(1, 7) n`)
  let batches = 0
  const changed = await changeAll(
    worker,
    (limit) => {
      batches += 1
      // Another one has deleted a row of the first batch between the look and the change.
      const found = batches === 1 ? limit - 1 : limit
      return sql`delete from erasure_ledger where name in (select name from erasure_ledger limit ${found})`
    },
    3,
  )
  t.equal(changed, 7)
})
