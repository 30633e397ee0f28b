import t from 'tap'
import type { Route } from '../../../api/http/route.ts'
import { decide } from '../../../api/permissions/rule.ts'
import { formatId, newUuid, PREFIXES } from '../../../lib/contract/ids.ts'
import { type Person, startTestApi } from '../../support/api.ts'
import {
  type Asked,
  idFields,
  idParams,
  isInOrganization,
  leavesNothing,
  pathFor,
  ROUTES,
  seeded,
  seedOf,
  send,
  sendTo,
  sidesOf,
  succeeds,
} from '../../support/route-table.ts'
import type { SeededRequest } from './seeds/seed.ts'

/** Of every operation, from the table of routes alone: who gets in, and what those learn who do not. */
const api = await startTestApi(t)
sendTo(api)
const { ours, theirs } = sidesOf(api)

const withToken = (token: string): Person => ({ ...api.people.member, token })
const forged = await api.identity.token({ sub: api.people.owner.id, claims: { exp: 1 } })

for (const route of ROUTES.filter((route) => !route.public)) {
  t.test(`${route.operationId} wants a token, and looks at nothing else before`, async (t) => {
    const { as: _, ...request } = await seedOf(route)(ours)
    for (const as of [undefined, withToken(forged)]) {
      const answer = await send(t, route, { ...request, ...(as && { as }) })
      t.strictSame([answer.status, answer.code], [401, 'UNAUTHORIZED'])
      t.match(answer.headers.get('www-authenticate'), /^Bearer/)
    }
    const nonsense = idParams(route).map(({ name }) => [name, 'nonsense'])
    const params = { ...request.params, ...Object.fromEntries(nonsense) }
    t.equal((await send(t, route, { ...request, params })).status, 401)
  })
}

const withParam = (request: SeededRequest, name: string, value = ''): SeededRequest => ({
  ...request,
  params: { ...request.params, [name]: value },
})
const withField = (request: SeededRequest, name: string, value: unknown): SeededRequest => ({
  ...request,
  json: { ...(request.json as object), [name]: value },
})
const fieldOf = (request: SeededRequest, name: string) => (request.json as Record<string, unknown>)[name]
const by = (request: SeededRequest, { as }: SeededRequest): SeededRequest => ({ ...request, ...(as && { as }) })

const malformed = (kind: keyof typeof PREFIXES, id: string) => [
  ...['nonsense', `${PREFIXES[kind]}_`, id.toUpperCase(), `${id}0`, id.slice(0, -1), `${id}\0`, `${id}' or 1=1--`],
  formatId(kind === 'session' ? 'request' : 'session', newUuid()),
]

type Stray = [what: string, SeededRequest, field?: string | undefined]
const isOfPath = (route: Route) => route.params?.shape['org_id'] !== undefined

/** Requests that must not find anything, with what is wrong about them, and the field of the body that is wrong. */
function strays(route: Route, mine: SeededRequest, foreign: SeededRequest): Stray[] {
  const params = idParams(route).flatMap(({ name, kind }): Stray[] => {
    const [own, other] = [mine.params?.[name] ?? '', foreign.params?.[name] ?? '']
    return [
      [`a foreign ${name}`, withParam(mine, name, other)],
      [`a foreign ${name} in one’s own organization`, withParam(foreign, name, own)],
      [`an unknown ${name}`, withParam(mine, name, formatId(kind, newUuid()))],
      // Two of those that its schema refuses: that the operation is served by its schema.
      ...['nonsense', `${own}\0`].map((id): Stray => [`the ${name} ${JSON.stringify(id)}`, withParam(mine, name, id)]),
    ]
  })
  const fields = idFields(mine).flatMap(({ name, kind }): Stray[] => {
    const [own, other] = [fieldOf(mine, name), fieldOf(foreign, name)]
    // A reference that the path does not lead to. Where the body names the organization, nothing is there to name.
    const field = isOfPath(route) ? `body.${name}` : undefined
    return [
      [`a foreign ${name} in the body`, withField(mine, name, other), field],
      [`a foreign ${name} in the body to one’s own organization`, withField(foreign, name, own), field],
      [`an unknown ${name} in the body`, withField(mine, name, formatId(kind, newUuid())), field],
    ]
  })
  const isUnfit = route.body && idParams(route).some(({ name }) => name === 'org_id')
  const ids = new Set(idParams(route).map(({ name }) => name))
  const others = Object.keys(mine.params ?? {}).filter((name) => !ids.has(name))
  return [
    ...others.map((name): Stray => [`a ${name} that does not fit`, by(withParam(mine, name, 'nonsense'), foreign)]),
    ...(isUnfit ? [['a body that does not fit', by({ ...mine, json: 7 }, foreign)] as Stray] : []),
    ['a member of another organization', by(mine, foreign)],
    ['another organization, whole', by(foreign, mine)],
    ['a platform administrator, who is a member of nothing', { ...mine, as: api.people.platformAdmin }],
    ...params,
    ...fields,
  ]
}

t.test('what is in an organization is not there for strangers, and no id leads astray', async (t) => {
  const asked: (Asked & { foreign: SeededRequest })[] = []
  for (const one of await seeded(ROUTES.filter(isInOrganization), ours)) {
    asked.push({ ...one, foreign: await seedOf(one.route)(theirs) })
  }
  await leavesNothing(t, api, asked, async ({ route, request: mine, foreign }) => {
    for (const [what, request, field] of strays(route, mine, foreign)) {
      const { status, code, body } = await send(t, route, request)
      t.strictSame([status, code], [404, 'NOT_FOUND'], `${route.operationId}: ${what}`)
      // The same for a foreign and an unknown one: the answer must not say which of the two it is.
      if (field) t.strictSame(body.error.details, [{ field, issue: 'does not exist' }], `${route.operationId}: ${what}`)
    }
  })
  for (const { route, request: mine, foreign } of asked) {
    for (const request of [mine, foreign]) {
      t.equal((await send(t, route, request)).status, route.status, `${route.operationId} for its own`)
    }
  }
})

for (const route of ROUTES) {
  t.test(`${route.operationId}: the schema of its path takes nothing that only looks like an id`, async (t) => {
    for (const { name, kind } of idParams(route)) {
      const takes = (id: string) => route.params?.shape[name]?.safeParse(id).success
      const id = formatId(kind, newUuid())
      t.ok(takes(id), name)
      t.strictSame(malformed(kind, id).filter(takes), [], name)
    }
  })
}

const isForFew = ({ action }: Route) => {
  const asking = { userId: api.people.member.id, role: null, platformAdmin: false }
  return action !== undefined && decide(action, asking, undefined as never) !== 'allowed'
}

t.test('what is in no organization is not there for those who may not', async (t) => {
  const routes = ROUTES.filter((route) => !route.public && !isInOrganization(route) && isForFew(route))
  const asked = await seeded(routes, ours)
  await leavesNothing(t, api, asked, async ({ route, request }) => {
    const refused = { ...request, as: api.people.member }
    const strays: [what: string, SeededRequest][] = [
      ['the same request', refused],
      ...(route.body ? [['a body that does not fit', { ...refused, json: 7 }] as [string, SeededRequest]] : []),
      ['a key that is none', { ...refused, headers: { 'idempotency-key': 'a b' } }],
    ]
    for (const [what, stray] of strays) {
      const { status, code } = await send(t, route, stray)
      t.strictSame([status, code], [404, 'NOT_FOUND'], `${route.operationId}: ${what}`)
    }
  })
  for (const { route, request } of asked) t.ok(succeeds((await send(t, route, request)).status), route.operationId)
})

for (const [address, operations] of Map.groupBy(ROUTES, ({ path }) => path)) {
  t.test(`${address} says which methods it answers`, async (t) => {
    const read = operations.find(({ method }) => method === 'get')
    const route = read ?? (operations[0] as Route)
    const request = await seedOf(route)(ours)
    const path = pathFor(route, { ...request, query: {} })
    const methods = operations.map(({ method }) => method.toUpperCase())
    if (read) methods.push('HEAD')
    const allow = [...new Set([...methods, 'OPTIONS'])].sort().join(', ')
    const others = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].filter((method) => !methods.includes(method))
    const asked = others.flatMap((method, n) =>
      (n === 0 ? [undefined, request.as] : [undefined]).map((who) => ({ who, method })),
    )
    for (const { who, method } of asked) {
      const { status, code, headers } = await api.call(who, method, path)
      t.strictSame([method, status, code, headers.get('allow')], [method, 405, 'METHOD_NOT_ALLOWED', allow])
    }
    const options = await api.call(undefined, 'OPTIONS', path)
    t.strictSame([options.status, options.headers.get('allow')], [204, allow])
    if (!read) return
    const [get, head] = [
      await send(t, read, request),
      await api.call(request.as, 'HEAD', pathFor(read, request), { headers: request.headers ?? {} }),
    ]
    t.strictSame([head.status, head.body.length], [get.status, 0])
  })
}
