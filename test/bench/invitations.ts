import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { Dispatcher } from 'undici'
import { openDatabase } from '../../api/db/db.ts'
import { newSlug } from '../../api/features/invitations/slug.ts'
import { invitationTokens } from '../../api/features/invitations/token.ts'
import type { RunningApi } from '../../api/server.ts'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { startApiOn } from '../support/api.ts'
import { quietLog } from '../support/quiet-log.ts'
import { startChild } from './children.ts'
import { type Cost, costsOf, type Side, shapesOf } from './rounds.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * What the look-up of a slug and a response cost beside the least that Express and pg could do for them: the statements
 * that the API sends, in the same transactions, and nothing else. `BENCH_ROUNDS` (15) changes how often each is measured.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
const REQUESTS = 100
const TARGET = 0.6
const EVENTS = 50
const LINK_KEYS = { current: 'a', keys: { a: randomBytes(32).toString('base64url') } }

interface Made {
  id: Uuid
  eventId: Uuid
  slug: string
  token: string
}
interface Statement {
  text: string
  values?: unknown[]
  name?: string
}
type Request = Dispatcher.RequestOptions
/** The same operation of both servers. */
interface Operation {
  name: string
  ask(world: World, made: Made): Request
}

const OPERATIONS: Operation[] = [
  {
    name: 'slug look-up',
    ask: (_, { slug }) => ({ method: 'GET', path: `/v1/api/invitations/by-slug/${slug}` }),
  },
  {
    name: 'response',
    ask: ({ token }, made) => ({
      ...{ method: 'POST', path: `/v1/api/invitations/${formatId('invitation', made.id)}/respond` },
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ response: 'accept', token: made.token }),
    }),
  },
]

console.log(await inWorld(measure, { settings: { LINK_KEYS: JSON.stringify(LINK_KEYS) } }))

async function measure(world: World): Promise<string> {
  const lines: string[] = []
  for (const operation of OPERATIONS) {
    const statements = await statementsOf(world, operation)
    const env = { DATABASE_URL: world.database.url, BARE_STATEMENTS: JSON.stringify(statements) }
    const bare = await startChild('bare-replay-child.ts', world.folder, env)
    try {
      for (const shape of shapesOf(REQUESTS)) {
        const each = (ROUNDS + 1) * shape.requests
        const [ours, theirs] = [await fill(world, each), await fill(world, each)]
        const sides: [Side, Side] = [
          { child: world.api, next: () => operation.ask(world, ours.pop() as Made) },
          { child: bare, next: () => askBare(theirs.pop() as Made) },
        ]
        const [api = [], least = []] = await costsOf(sides, shape, ROUNDS)
        lines.push(row(`${operation.name} | ${shape.name} | ${statements.flat().length}`, api, least))
      }
    } finally {
      await bare.stop()
    }
  }
  return [
    `Medians of ${ROUNDS} alternating rounds, milliseconds per request`,
    '',
    '| operation | requests | statements | wall, API | wall, bare | share of its throughput | target | server CPU, API | server CPU, bare |',
    '|---|---|---|---|---|---|---|---|---|',
    ...lines,
  ].join('\n')
}

function askBare({ id, eventId, slug, token }: Made): Request {
  const body = JSON.stringify({ $invitation: id, $event: eventId, $slug: slug, token })
  return { method: 'POST', path: '/', headers: { 'content-type': 'application/json' }, body }
}

/** Pending invitations to events of the organization, for responders that present their tokens. */
async function fill({ database: { admin }, orgId, userId }: World, count: number): Promise<Made[]> {
  const eventIds = Array.from({ length: EVENTS }, () => newUuid())
  await admin.query(
    `insert into events (id, org_id, owner_id, title, start_at, status)
       select id, $2, $3, 'Class reunion', now(), 'active' from unnest($1::uuid[]) id`,
    [eventIds, orgId, userId],
  )
  const expires = Math.floor(Date.now() / 1000) + 3600
  const tokens = invitationTokens(LINK_KEYS)
  const made = await Promise.all(
    Array.from({ length: count }, async (_, n): Promise<Made> => {
      const id = newUuid()
      const token = await tokens.mint({ id, generation: 1, expires })
      return { id, eventId: eventIds[n % EVENTS] ?? '', slug: newSlug(), token }
    }),
  )
  await admin.query(
    `insert into invitations (id, org_id, event_id, slug, email, token_expires_at, invited_by, told_generation)
       select id, $4, event_id, slug, id || '@example.org', to_timestamp($5), $6, 1
       from unnest($1::uuid[], $2::uuid[], $3::text[]) given (id, event_id, slug) on conflict do nothing`,
    [made.map((m) => m.id), made.map((m) => m.eventId), made.map((m) => m.slug), orgId, expires, userId],
  )
  await admin.query('vacuum analyze events, invitations, event_participants')
  return made
}

/** What the API sends to Postgres for this operation, by transaction, once the caller is known. */
async function statementsOf(world: World, { ask }: Operation): Promise<Statement[][]> {
  const endings: (() => Promise<void>)[] = []
  const record = recordStatements()
  const db = openDatabase({
    ...{ url: world.database.url, role: 'keepsake_api', statementTimeoutMs: 5000, maxConnections: 1 },
    log: quietLog(),
  })
  endings.unshift(() => db.close())
  const api = await startApiOn(
    { teardown: (end) => void endings.unshift(end) },
    {
      ...{ database: { ...world.database, db }, identity: world.identity },
      settings: { LINK_KEYS: JSON.stringify(LINK_KEYS) },
    },
  )
  try {
    const [first, second] = await fill(world, 2)
    if (!first || !second) throw new Error('no invitations')
    await send(api, ask(world, first))
    record.seen.length = 0
    await send(api, ask(world, second))
    const statements = [...record.seen]
    const known = new Map([
      [second.id, '$invitation'],
      [second.eventId, '$event'],
      [second.slug, '$slug'],
    ])
    const fixed = new Set<unknown>([world.orgId, world.userId, ...known.keys()])
    const isNew = (value: unknown) =>
      /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(String(value)) && !fixed.has(value)
    const filled = ({ values, ...statement }: Statement) => ({
      ...statement,
      ...(values && { values: values.map((value) => (isNew(value) ? '$new' : (known.get(String(value)) ?? value))) }),
    })
    return byTransaction(statements.map(filled))
  } finally {
    record.stop()
    for (const end of endings) await end()
  }
}

async function send({ publicUrl }: RunningApi, { path, method, headers, body }: Request): Promise<void> {
  const response = await fetch(publicUrl + path, { method, headers, body } as RequestInit)
  if (response.status !== 200) throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
}

/** Every statement that this process sends from now on, in `seen`. Call it before there is a connection: some keep `query`. */
function recordStatements(): { seen: Statement[]; stop(): void } {
  const seen: Statement[] = []
  const { query } = pg.Client.prototype
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    const [first, values] = args as [string | Statement, unknown[] | undefined]
    const { text, name, values: own } = typeof first === 'string' ? ({ text: first } as Statement) : first
    const all = own ?? values
    seen.push({ text, ...(name && { name }), ...(Array.isArray(all) && { values: all }) })
    return Reflect.apply(query, this, args)
  } as typeof query
  const stop = () => {
    pg.Client.prototype.query = query
  }
  return { seen, stop }
}

function byTransaction(statements: Statement[]): Statement[][] {
  const transactions: Statement[][] = []
  for (const statement of statements) {
    if (statement.text.startsWith('begin')) transactions.push([])
    transactions.at(-1)?.push(statement)
  }
  if (transactions.some((one) => one.at(-1)?.text !== 'commit')) throw new Error('transactions overlap')
  return transactions
}

function row(name: string, ours: Cost[], theirs: Cost[]): string {
  const of = (costs: Cost[], what: keyof Cost) => median(costs.map((cost) => cost[what]))
  const [wall, bareWall, cpu, bareCpu] = [of(ours, 'wall'), of(theirs, 'wall'), of(ours, 'cpu'), of(theirs, 'cpu')]
  const share = bareWall / wall
  const verdict = `≥ ${TARGET}: ${share >= TARGET ? 'met' : 'MISSED'}`
  const shown = [wall, bareWall, share].map((n) => n.toFixed(2)).join(' | ')
  return `| ${name} | ${shown} | ${verdict} | ${cpu.toFixed(2)} | ${bareCpu.toFixed(2)} |`
}
