import { fork } from 'node:child_process'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { aPerson, startTestApi, type TestApi, uuidOf } from '../support/api.ts'
import type { Greed } from '../support/greedy.ts'
import { pathFor, ROUTES, seedOf, sidesOf } from '../support/route-table.ts'

/**
 * How long a member waits for every operation, alone and beside another member of the organization who takes as much of
 * the API as it can. The API and the polite caller share a process, the greedy caller has its own.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 9)
const TARGET = 3
/** Until the greedy caller has its share, and until what it held is free again. */
const SETTLE_MS = 6000

const endings: (() => Promise<void>)[] = []
const api = await startTestApi(
  { teardown: (done) => void endings.unshift(done) },
  // So wide that only what is held at a time counts.
  { settings: { RATE_LIMIT_FACTOR: '1000000', CHECK_RESPONSES: 'false' } },
)
const greed = await aGreed(api)
const holder = await api.database.admin.connect()
await holder.query('begin')
await holder.query('select from events where id = $1 for update', [uuidOf('event', greed.event)])
const child = fork(resolve(import.meta.dirname, 'greedy-child.ts'))

const times = { alone: new Map<string, number[]>(), beside: new Map<string, number[]>() }
let refused = 0
// The first round loads code and fills caches.
await round(new Map())
for (let i = 0; i < ROUNDS; i++) {
  await round(times.alone)
  child.send(greed)
  await sleep(SETTLE_MS)
  await round(times.beside)
  child.send('stop')
  await sleep(SETTLE_MS)
}
console.log(report())

child.disconnect()
await holder.query('rollback')
holder.release()
for (const end of endings) await end()

async function aGreed({ database, org, port }: TestApi): Promise<Greed> {
  const person = await aPerson(api)
  await database.admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [
    uuidOf('organization', org),
    person.id,
  ])
  const json = { title: 'Mine', start_at: '2026-08-01T12:00:00Z' }
  const { data } = await api.call(person, 'POST', `/api/orgs/${org}/events`, { json })
  return { port, token: person.token, org, event: data.event_id }
}

/** Each operation once. */
async function round(into: Map<string, number[]>): Promise<void> {
  const { ours } = sidesOf(api)
  for (const route of ROUTES) {
    const request = await seedOf(route)(ours)
    const { as, params: _, query: __, signsOut: ___, ...options } = request
    const started = performance.now()
    const { status } = await api.call(as, route.method.toUpperCase(), pathFor(route, request), options)
    const ms = performance.now() - started
    if (status === 429 || status === 503) refused += 1
    into.set(route.operationId, [...(into.get(route.operationId) ?? []), ms])
  }
}

function report(): string {
  const of = (all: readonly number[], share: number) =>
    [...all].sort((a, b) => a - b)[Math.floor(all.length * share)] ?? 0
  const row = (name: string, alone: readonly number[], beside: readonly number[]) => {
    const [before, after] = [of(alone, 0.95), of(beside, 0.95)]
    const medians = `${of(alone, 0.5).toFixed(1)} | ${of(beside, 0.5).toFixed(1)}`
    return {
      ratio: after / before,
      text: `| ${name} | ${medians} | ${before.toFixed(1)} | ${after.toFixed(1)} | ${(after / before).toFixed(2)} |`,
    }
  }
  const all = row('all', [...times.alone.values()].flat(), [...times.beside.values()].flat())
  const each = [...times.alone].map(([name, alone]) => row(name, alone, times.beside.get(name) ?? []))
  const worst = each.sort((a, b) => b.ratio - a.ratio).slice(0, 5)
  const met = all.ratio <= TARGET && refused === 0 ? 'met' : 'MISSED'
  if (met !== 'met') process.exitCode = 1
  return [
    `${ROUTES.length} operations, ${ROUNDS} alternating rounds of one request each, milliseconds; ${refused} refused.`,
    `Target, p95 of all at most ${TARGET} times and none refused: ${met}.`,
    '',
    '| operation | median alone | median beside | p95 alone | p95 beside | ratio |',
    '|---|---|---|---|---|---|',
    ...[all, ...worst].map(({ text }) => text),
  ].join('\n')
}
