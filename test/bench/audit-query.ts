import { Client } from 'undici'
import { newUuid } from '../../lib/contract/ids.ts'
import { makePastDays } from '../support/audit-log.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * What a query of one person's actions costs among `BENCH_ENTRIES` (10,000,000) entries of the audit log, beside the same
 * person among 10,000, in as many days: a database each. Rounds of the two alternate; medians are compared. The large
 * table takes about 5 GiB of disk until the end. `BENCH_ROUNDS` (15) changes how often each is measured.
 */
const ENTRIES = Number(process.env['BENCH_ENTRIES'] ?? 10_000_000)
const FEW = 10_000
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
const DAYS = 30
const OF_PERSON = 10
const PEOPLE = 20_000
const REQUESTS = 10
const TARGET = 1.3
const ME = newUuid()

const ASKED = [
  { name: 'the first 50', json: { limit: 50 } },
  { name: 'the first 50 of one action', json: { limit: 50, action: ['MEDIA_DELETE'] } },
  { name: '200 of a month', json: { limit: 200 } },
]

console.log(await inWorld((small) => inWorld((large) => measure(small, large))))

async function measure(small: World, large: World): Promise<string> {
  await fill(small, FEW)
  await fill(large, ENTRIES)
  const sides = await Promise.all(
    [small, large].map(async ({ api, identity, userId }) => {
      const token = await identity.token({ sub: userId, roles: ['ROLE_ADMIN'] })
      return { client: new Client(api.url), token }
    }),
  )
  try {
    const lines: string[] = []
    for (const { name, json } of ASKED) {
      const times = sides.map((): number[] => [])
      // The first round only warms up.
      for (let round = 0; round <= ROUNDS; round++) {
        for (const [n, side] of sides.entries()) {
          const took = await timeOf(side, json)
          if (round > 0) times[n]?.push(took)
        }
      }
      const [few = 0, many = 0] = times.map(median)
      const ratio = many / few
      const verdict = ratio <= TARGET ? 'met' : 'MISSED'
      lines.push(`| ${name} | ${few.toFixed(1)} | ${many.toFixed(1)} | ${ratio.toFixed(2)}, ${verdict} |`)
    }
    const { rows } = await large.database.admin.query(
      `select pg_size_pretty(pg_database_size(current_database())) as size`,
    )
    const head = `| query of one person | ms among ${FEW} | ms among ${ENTRIES} | ratio (target ${TARGET}) |\n|---|---|---|---|`
    return `${head}\n${lines.join('\n')}\n\nThe large database: ${rows[0].size}\n`
  } finally {
    for (const { client } of sides) await client.close()
  }
}

/** Days of the same number of entries, ten of them the person's, all sealed as far as readers look at the seal. */
async function fill({ database: { admin }, orgId }: World, entries: number): Promise<void> {
  await makePastDays(admin, DAYS)
  const others = Math.ceil(entries / DAYS) - OF_PERSON
  for (let day = 1; day <= DAYS; day++) {
    await admin.query(
      `insert into audit_log (id, org_id, actor_id, action, resource_type, result, details, occurred_at)
      select gen_random_uuid(), $1,
        case when n > $3 then $2 else ('00000000-0000-4000-8000-' || lpad(to_hex(n % ${PEOPLE}), 12, '0'))::uuid end,
        case when n % 3 = 0 then 'MEDIA_DELETE' else 'LOGIN' end, 'session', 'success', '{}',
        ((now() at time zone 'UTC')::date - $4::int)::timestamp at time zone 'UTC'
          + (case when n > $3 then (n - $3) * interval '2 hours' else n * interval '24 hours' / ($3 + 1) end)
      from generate_series(1, $3::int + ${OF_PERSON}) n`,
      [orgId, ME, others, day],
    )
  }
  await admin.query(
    `insert into audit_actor_days select $1, (now() at time zone 'UTC')::date - n from generate_series(1, ${DAYS}) n`,
    [ME],
  )
  await admin.query(
    `insert into audit_actor_days select ('00000000-0000-4000-8000-' || lpad(to_hex(p), 12, '0'))::uuid,
      (now() at time zone 'UTC')::date - n from generate_series(0, least($1::int, ${PEOPLE}) - 1) p, generate_series(1, ${DAYS}) n`,
    [others],
  )
  await admin.query(`update audit_cursor set upto = pg_current_xact_id(), serial = (select max(serial) from audit_log)`)
  await admin.query('vacuum analyze')
}

async function timeOf({ client, token }: { client: Client; token: string }, json: object): Promise<number> {
  const started = performance.now()
  for (let n = 0; n < REQUESTS; n++) {
    const { statusCode, body } = await client.request({
      method: 'POST',
      path: '/v1/admin/audit/query',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ actor_id: ME, ...json }),
    })
    const answer = (await body.json()) as { data?: { logs: unknown[] } }
    if (statusCode !== 200 || answer.data?.logs.length === 0) throw new Error(`answered ${statusCode}`)
  }
  return (performance.now() - started) / REQUESTS
}
