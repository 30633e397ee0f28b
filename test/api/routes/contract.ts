import t, { type Test } from 'tap'
import type * as z from 'zod'
import { expiryAt } from '../../../api/features/media/delivery/token.ts'
import { CATALOG } from '../../../api/features.ts'
import { JSON_LIMIT } from '../../../api/http/json-body.ts'
import { isTagged, type Route } from '../../../api/http/route.ts'
import { LIMIT_CLASSES } from '../../../api/limits/classes.ts'
import { type Answer, startTestApi } from '../../support/api.ts'
import { actionNamed, KINDS, type WithCan, withCan } from '../../support/can.ts'
import {
  idFields,
  isList,
  leavesNothing,
  listSeedOf,
  ROUTES,
  seeded,
  seedOf,
  send,
  sendTo,
  sidesOf,
  succeeds,
} from '../../support/route-table.ts'
import { LISTS, SEEDS } from './seeds/index.ts'
import type { SeededRequest } from './seeds/seed.ts'

/**
 * Of every operation, from the table of routes alone: that it does what its entry in the table says. The API runs with
 * CHECK_RESPONSES, so an answer that does not fit its schema, a refusal that is not declared and a success that the
 * permission service never saw are answered 500 here.
 */
const api = await startTestApi(t)
sendTo(api)
const { ours } = sidesOf(api)

t.test('every operation has a seed, every list has a list seed, and no seed is left over', async (t) => {
  t.strictSame(Object.keys(SEEDS).sort(), ROUTES.map(({ operationId }) => operationId).sort())
  t.strictSame(
    Object.keys(LISTS).sort(),
    ROUTES.filter(isList)
      .map(({ operationId }) => operationId)
      .sort(),
  )
})

/** A schema and all that it is made of. */
function partsOf(schema: z.core.$ZodType): z.core.$ZodTypes[] {
  const { _zod } = schema as z.core.$ZodTypes
  const { def } = _zod
  const parts = {
    ...('shape' in def && def.shape),
    ...('element' in def && { element: def.element }),
    ...('innerType' in def && { innerType: def.innerType }),
    ...('valueType' in def && { valueType: def.valueType }),
    ...('options' in def && def.options),
  }
  return [schema as z.core.$ZodTypes, ...Object.values(parts).flatMap((part) => partsOf(part as z.core.$ZodType))]
}

const kindsSeen = new Set<string>()

for (const route of ROUTES) {
  t.test(`${route.operationId}: what needs a token names its action, what does not has none`, async (t) => {
    if (route.public) t.equal(route.action, undefined)
    else t.ok(route.action && CATALOG.actions.includes(route.action), String(route.action?.name))
  })

  t.test(`${route.operationId}: an answer that is too long has public ids too`, async (t) => {
    for (const { _zod } of route.response ? partsOf(route.response) : []) {
      const { type, checks = [] } = _zod.def
      // Of numbers there is nothing to tell.
      if (type !== 'array' || _zod.def.element._zod.def.type === 'number') continue
      const capped = checks.filter((check) => /length/.test(check._zod.def.check))
      t.strictSame(capped, [], '`outputArray` says how long a list of an answer can be')
    }
  })

  t.test(`${route.operationId} counts against one class of limits`, async (t) => {
    t.ok(Object.hasOwn(LIMIT_CLASSES, route.limit ?? 'general'), String(route.limit))
    t.ok(route.limit || !route.public, 'the general one is for callers with a token')
  })

  t.test(`${route.operationId} answers the seeded request as it is described`, async (t) => {
    const request = await seedOf(route)(ours)
    if (isList(route)) await listSeedOf(route).add(ours)
    const answer = await send(t, route, request)
    t.equal(answer.status, route.status)
    shapeOf(t, route, answer)
    for (const one of withCan(answer.data)) checkCan(t, one)
  })
}

function shapeOf(t: Test, route: Route, { status, headers, body }: Answer): void {
  t.match(headers.get('x-request-id'), /^req_/)
  if (status === 204) return void t.equal(body.length, 0)
  const type = headers.get('content-type')?.split(';')[0] ?? ''
  if (route.raw)
    return void t.ok(
      route.raw.contentTypes.some((declared) => isType(declared, type)),
      type,
    )
  t.equal(type, 'application/json')
  const data = route.unwrapped ? body : body.data
  if (!route.unwrapped) t.match(body, { meta: { request_id: headers.get('x-request-id'), timestamp: /Z$/ } })
  t.strictSame(route.response?.safeParse(data).data, data, 'nothing but what the schema declares')
}

const isType = (declared: string, type: string) =>
  declared === type || (declared.endsWith('/*') && type.startsWith(declared.slice(0, -1)))

const takesJson = (route: Route) => route.body !== undefined && route.bodyKind === undefined

for (const route of ROUTES.filter(takesJson)) {
  t.test(`${route.operationId}: the example of its document is accepted`, async (t) => {
    const request = await seedOf(route)(ours)
    const example = route.examples?.request as Record<string, unknown> | undefined
    t.ok(route.body?.safeParse(example).success, 'it fits the schema')
    if (!example) return
    // What it names has to be there: ids and credentials are the seed's.
    const named = [...idFields(request).map(({ name }) => name), ...ID_LISTS, ...CREDENTIALS].filter(
      (name) => name in example,
    )
    const own = Object.fromEntries(named.map((name) => [name, (request.json as Record<string, unknown>)[name]]))
    const json = JSON.parse(JSON.stringify({ ...example, ...own }))
    const answer = await send(t, route, { ...request, json })
    t.ok(succeeds(answer.status), `${answer.status} ${answer.code}`)
  })
}

t.test('what is no JSON, or other JSON, is refused and does nothing', async (t) => {
  const asked = await seeded(ROUTES.filter(takesJson), ours)
  await leavesNothing(t, api, asked, async ({ route, request: { json: _, ...request } }) => {
    const wrong: [what: string, SeededRequest, status: number, code: string][] = [
      ['half a document', { ...request, ...sent('{"a":') }, 400, 'MALFORMED_JSON'],
      ['no UTF-8', { ...request, ...sent(Buffer.from([0x22, 0xff, 0x22])) }, 400, 'MALFORMED_JSON'],
      ['a list', { ...request, json: [] }, 400, 'VALIDATION_ERROR'],
      ['null', { ...request, json: null }, 400, 'VALIDATION_ERROR'],
      ['another type', { ...request, ...sent('{}', 'text/plain') }, 415, 'UNSUPPORTED_CONTENT_TYPE'],
      ['too much', { ...request, ...sent(TOO_MUCH) }, 413, 'PAYLOAD_TOO_LARGE'],
    ]
    for (const [what, bad, status, code] of wrong) {
      const answer = await send(t, route, bad)
      t.strictSame([answer.status, answer.code], [status, code], `${route.operationId}: ${what}`)
    }
  })
})
const TOO_MUCH = `"${'x'.repeat(JSON_LIMIT - 1)}"`
const ID_LISTS = ['media_ids']
const CREDENTIALS = ['email', 'password', 'refresh_token', 'challenge_id', 'code']
const sent = (text: string | Buffer, type = 'application/json') => ({
  bytes: Buffer.from(text),
  headers: { 'content-type': type },
})

for (const route of ROUTES.filter(({ bodyKind }) => bodyKind === 'multipart')) {
  t.test(`${route.operationId}: the example of its document is accepted, with a file`, async (t) => {
    const { form = new FormData(), ...request } = await seedOf(route)(ours)
    const example = route.examples?.request as Record<string, string> | undefined
    const whole = new FormData()
    for (const [name, value] of [...Object.entries(example ?? {}), ...form]) whole.append(name, value)
    t.ok(example)
    t.equal((await send(t, route, { ...request, form: whole })).status, route.status)
  })
}

t.test('a file of another type is refused and does nothing', async (t) => {
  const routes = ROUTES.filter(({ bodyKind }) => bodyKind === 'multipart' || bodyKind === 'bytes')
  await leavesNothing(
    t,
    api,
    await seeded(routes, ours),
    async ({ route, request: { form: _, bytes: __, ...request } }) => {
      const { status, code } = await send(t, route, { ...request, json: {} })
      t.strictSame([status, code], [415, 'UNSUPPORTED_CONTENT_TYPE'], route.operationId)
    },
  )
})

/** Those of `ask`, of one quarter of an hour: links change with it, and entity tags with them. */
async function inOneQuarter<T>(ask: () => Promise<T>): Promise<T> {
  const quarter = () => expiryAt(Math.floor(Date.now() / 1000))
  const before = quarter()
  const answers = await ask()
  return quarter() === before ? answers : inOneQuarter(ask)
}
/** What browsers, and fetch of Node, say beside the entity tag of their caller. */
const DIRECTIVES = ['no-cache', 'max-age=0', 'no-cache, max-age=0']

for (const route of ROUTES.filter(isTagged)) {
  t.test(`${route.operationId}: a repeat with its entity tag is answered 304`, async (t) => {
    const request = await seedOf(route)(ours)
    const { tag, plain, directed } = await inOneQuarter(async () => {
      const { headers } = await send(t, route, request)
      const tag = headers.get('etag') ?? ''
      const plain = await send(t, route, { ...request, headers: { 'if-none-match': tag } })
      const directed: number[] = []
      for (const directive of DIRECTIVES) {
        const headers = { 'if-none-match': `"another", ${tag}`, 'cache-control': directive, pragma: 'no-cache' }
        directed.push((await send(t, route, { ...request, headers })).status)
      }
      return { tag, plain, directed }
    })
    t.match(tag, /^W\/"/)
    t.strictSame([plain.status, plain.body.length, plain.headers.get('etag')], [304, 0, tag])
    t.strictSame(directed, [304, 304, 304], DIRECTIVES.join('; '))
    const changed = await send(t, route, { ...request, headers: { 'if-none-match': 'W/"another"' } })
    t.equal(changed.status, 200)
  })
}

/** What mails lead to is recorded. */
const RECORDED = new Set(['recordOpen', 'followInvitationLink'])

t.test('reading changes nothing', async (t) => {
  const routes = ROUTES.filter(({ method, operationId }) => method === 'get' && !RECORDED.has(operationId))
  await leavesNothing(t, api, await seeded(routes, ours), async ({ route, request }) => {
    t.equal((await send(t, route, request)).status, route.status, route.operationId)
  })
})

/** test/api/routes/can.ts checks that each can be done. */
function checkCan(t: Test, one: WithCan): void {
  const kind = KINDS[Object.keys(one)[0] ?? ''] ?? ''
  kindsSeen.add(kind)
  t.equal(new Set(one.can).size, one.can.length, 'each action once')
  for (const name of one.can) t.equal(actionNamed.get(name)?.on, kind, `${name} is an action on a ${kind}`)
}

t.test('answers say of every kind of resource that they show what the caller can do', async (t) => {
  t.strictSame([...kindsSeen].sort(), Object.values(KINDS).sort())
})
