import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { type AppDeps, apiRoutes, describeApi } from '../../api/app.ts'
import { problemsOf } from '../../api/http/openapi-problems.ts'
import type { Route } from '../../api/http/route.ts'
import { formatId, type IdKind, newUuid, PREFIXES } from '../../lib/contract/ids.ts'
import type { ProblemCode } from '../../lib/contract/problem.ts'
import { LISTS, SEEDS } from '../api/routes/seeds/index.ts'
import type { ListSeed, SeededRequest, Side } from '../api/routes/seeds/seed.ts'
import type { Answer, TestApi } from './api.ts'

// Making the list touches none of the dependencies.
const nothing: object = new Proxy({}, { get: () => nothing })

/** Every operation of the API. */
export const ROUTES: readonly Route[] = apiRoutes(nothing as AppDeps, '/v1')
const document = describeApi(ROUTES, '/v1')

/** Whether the operation belongs to an organization: strangers must not learn that anything is there. */
export const isInOrganization = (route: Route) => route.action !== undefined && route.action.on !== 'caller'
/** Whether the caller may be someone who is not a member. */
export const admitsGuests = (route: Route) => route.action?.guests === true
export const isList = (route: Route) => route.query !== undefined && 'cursor' in route.query.shape
export const listed = ROUTES.filter(isList)

export function seedOf(route: Route) {
  const seed = SEEDS[route.operationId]
  if (!seed) throw new Error(`${route.operationId} has no seed: add one below test/api/routes/seeds/`)
  return seed
}

export function listSeedOf(route: Route): ListSeed {
  const seed = LISTS[route.operationId]
  if (!seed)
    throw new Error(`${route.operationId} is a list and has no list seed: add one below test/api/routes/seeds/`)
  return seed
}

/** Two organizations with one member each. */
export const sidesOf = (api: TestApi): { ours: Side; theirs: Side } => ({
  ours: { api, org: api.org, person: api.people.member },
  theirs: { api, org: api.otherOrg, person: api.people.stranger },
})

const KINDS = Object.keys(PREFIXES) as IdKind[]

/** The path parameters that are ids, found by what their schemas take. */
export function idParams(route: Route): { name: string; kind: IdKind }[] {
  return Object.entries(route.params?.shape ?? {}).flatMap(([name, schema]) => {
    const takes = (text: string) => schema.safeParse(text).success
    const kind = KINDS.find((kind) => takes(formatId(kind, newUuid())))
    return kind && !takes('nonsense') ? [{ name, kind }] : []
  })
}

/** The fields of a JSON body that hold ids. */
export function idFields({ json }: SeededRequest): { name: string; kind: IdKind }[] {
  return Object.entries((json ?? {}) as Record<string, unknown>).flatMap(([name, value]) => {
    const prefix = typeof value === 'string' && /^([a-z]{3})_[0-9a-z]{26}$/.exec(value)?.[1]
    const kind = KINDS.find((kind) => PREFIXES[kind] === prefix)
    return kind ? [{ name, kind }] : []
  })
}

export function pathFor(route: Route, { params = {}, query = {} }: SeededRequest): string {
  const path = route.path.replace(/\{(\+?)(\w+)\}/g, (_, rest: string, name: string) => {
    const value = params[name]
    if (value === undefined) throw new Error(`the seed of ${route.operationId} lacks the parameter ${name}`)
    return rest ? value : encodeURIComponent(value)
  })
  const search = new URLSearchParams(query).toString()
  return search ? `${path}?${search}` : path
}

/** Sends it, and checks what holds of every answer: it is documented, and a refusal is one that the route declares. */
export async function send(t: Test, route: Route, request: SeededRequest): Promise<Answer> {
  const { as, params: _, query: __, signsOut: ___, ...options } = request
  const { api } = sending
  if (!api) throw new Error('sendTo() says which API is meant')
  const answer = await api.call(as, route.method.toUpperCase(), pathFor(route, request), options)
  const name = `${route.operationId} answered ${answer.status} ${answer.code ?? ''}`
  if (!isDocumented(route, answer.status)) t.fail(`${name}, which its document does not mention`)
  if (answer.status >= 400 && !problemsOf(route).includes(answer.code as ProblemCode)) {
    t.fail(`${name}, which it does not declare`, { body: answer.body })
  }
  if (answer.status >= 500) t.fail(name, { logged: api.logged.filter(({ level }) => level === 'error') })
  return answer
}
const sending: { api?: TestApi } = {}
export const sendTo = (api: TestApi) => {
  sending.api = api
}

function isDocumented(route: Route, status: number): boolean {
  const path = document.paths?.[route.path.replaceAll('{+', '{')]
  return Object.hasOwn(path?.[route.method]?.responses ?? {}, String(status))
}

export const succeeds = (status: number) => status >= 200 && status < 300

/**
 * Everything that requests leave behind: each table, without refusals in the audit log and without what is noted of
 * users who show up, and the keys of the store. Waits until nothing changes any more, as some work goes on behind an
 * answer. A sum of hashes wants no order: to sort the rows of every table was half of the CPU of these suites.
 */
export async function traces(api: TestApi): Promise<Record<string, string>> {
  for (let before = await look(api); ; ) {
    await sleep(50)
    const now = await look(api)
    if (JSON.stringify(now) === JSON.stringify(before)) return now
    before = now
  }
}

/** A request that must leave nothing behind. */
export interface Asked {
  route: Route
  request: SeededRequest
}

/** Asks with all of them, which must leave nothing behind: looked at once, and one by one only to tell which one did. */
export async function leavesNothing<T extends Asked>(
  t: Test,
  api: TestApi,
  asked: readonly T[],
  ask: (one: T) => Promise<void>,
): Promise<void> {
  const before = await traces(api)
  for (const one of asked) await ask(one)
  const after = await traces(api)
  t.strictSame(after, before, 'nothing was changed')
  if (JSON.stringify(after) === JSON.stringify(before)) return
  for (const one of asked) {
    const before = await traces(api)
    await ask(one)
    t.strictSame(await traces(api), before, one.route.operationId)
  }
}

/** Requests of one side for these operations. */
export async function seeded(routes: readonly Route[], side: Side): Promise<Asked[]> {
  const asked: Asked[] = []
  for (const route of routes) asked.push({ route, request: await seedOf(route)(side) })
  return asked
}

async function look(api: TestApi): Promise<Record<string, string>> {
  const { admin } = api.database
  const tables = await admin.query<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'public'
      and tablename not in ('users', 'sessions', 'migrations', 'audit_keys')
      and not (select relispartition from pg_class where oid = tablename::regclass)
      order by tablename`,
  )
  const digests = tables.rows.map(({ name }) => {
    const only = name === 'audit_log' ? `where action <> 'ACCESS_DENIED'` : ''
    return `select '${name}' as name, concat(count(*), ' ', sum(hashtextextended(r::text, 0))) as digest from ${name} r ${only}`
  })
  const { rows } = await admin.query<{ name: string; digest: string }>({
    // Prepared: to read the text of a hundred queries and to plan them took longer than to run them.
    ...{ name: 'look', text: digests.join(' union all ') },
  })
  const objects = createHash('md5')
    .update((await api.keys()).sort().join('\n'))
    .digest('hex')
  return Object.fromEntries([...rows.map(({ name, digest }) => [name, digest]), ['objects', objects]])
}
