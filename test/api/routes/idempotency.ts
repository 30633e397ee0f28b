import t, { type Test } from 'tap'
import { type Route, takesIdempotencyKey } from '../../../api/http/route.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { type Answer, startTestApi } from '../../support/api.ts'
import {
  admitsGuests,
  isInOrganization,
  ROUTES,
  seedOf,
  send,
  sendTo,
  sidesOf,
  traces,
} from '../../support/route-table.ts'
import type { SeededRequest } from './seeds/seed.ts'

/** Of every operation that takes an Idempotency-Key, from the table of routes alone: what a repeat comes to. */
const api = await startTestApi(t)
sendTo(api)
const { ours, theirs } = sidesOf(api)

const keyed = (request: SeededRequest, key: string): SeededRequest => ({
  ...request,
  headers: { ...request.headers, 'idempotency-key': key },
})
/** Without the tokens of links, which are made anew for a repeat and change every quarter of an hour. */
const lasting = (data: unknown): unknown =>
  JSON.parse(JSON.stringify(data ?? null).replaceAll(/\/d\/[^/]+\//g, '/d/…/'))
const isReplayed = ({ headers }: Answer) => headers.get('idempotency-replayed') === 'true'
const keptUnder = async (key: string) =>
  (await api.database.admin.query('select from idempotency_keys where key = $1', [key])).rowCount

const hasBody = (route: Route) => route.body !== undefined || route.bodyKind !== undefined

const BAD_KEYS = [' ', 'a b', 'x'.repeat(256)]

/** What is refused under a key, and with which status. */
function refusedOf(route: Route, request: SeededRequest): [SeededRequest, number] {
  if (isInOrganization(route)) return [{ ...request, as: api.people.stranger }, 404]
  if (hasBody(route)) return [{ ...request, json: 7 }, 400]
  return [{ ...request, headers: { authorization: 'Bearer none' } }, 401]
}

for (const route of ROUTES.filter(takesIdempotencyKey)) {
  t.test(`${route.operationId}: what a key is good for, from the first request to the last`, async (t) => {
    const [request, other, key] = [await seedOf(route)(ours), await seedOf(route)(ours), newUuid()]
    const before = await traces(api)

    for (const bad of BAD_KEYS) {
      const { status, code } = await send(t, route, keyed(request, bad))
      t.strictSame([status, code], [400, 'VALIDATION_ERROR'], `a key that is none: ${JSON.stringify(bad)}`)
    }
    const [refused, expected] = refusedOf(route, request)
    t.equal((await send(t, route, keyed(refused, key))).status, expected)
    t.equal(await keptUnder(key), 0, 'nothing is kept for a refusal, and the key stays free')
    t.strictSame(await traces(api), before, 'no refusal has an effect')

    const first = await send(t, route, keyed(request, key))
    t.strictSame([first.status, isReplayed(first)], [route.status, false])
    t.equal(await keptUnder(key), 1)
    const after = await traces(api)
    t.notSame(after, before, 'the first has an effect')
    const again = await send(t, route, keyed(request, key))
    if (request.signsOut) t.equal(again.status, 401)
    else t.strictSame([again.status, lasting(again.data), isReplayed(again)], [first.status, lasting(first.data), true])
    if (hasBody(route) && !request.signsOut) {
      const another = await send(t, route, keyed({ ...other, ...(request.as && { as: request.as }) }, key))
      t.strictSame([another.status, another.code], [422, 'IDEMPOTENCY_KEY_REUSED'], 'another request')
    }
    t.strictSame(await traces(api), after, 'neither a repeat nor another request has one')

    if (!isInOrganization(route)) return
    if (!admitsGuests(route)) await whoHasLeft(t, route, { request: keyed(request, key), first })
    const theirOwn = await send(t, route, keyed(await seedOf(route)(theirs), key))
    t.strictSame([theirOwn.status, isReplayed(theirOwn)], [route.status, false], 'a key is one person’s')
  })

  t.test(`${route.operationId}: many at once under one key are one`, async (t) => {
    const [request, key] = [await seedOf(route)(ours), newUuid()]
    const answers = await Promise.all(Array.from({ length: 6 }, () => send(t, route, keyed(request, key))))
    const wanted = answers.filter(({ status }) => status === route.status)
    t.equal(wanted.filter((answer) => !isReplayed(answer)).length, 1, 'one does it')
    for (const { data } of wanted) t.strictSame(lasting(data), lasting(wanted[0]?.data))
    for (const { status, code, headers } of answers.filter((answer) => !wanted.includes(answer))) {
      if (request.signsOut && status === 401) continue
      t.strictSame([status, code], [409, 'IDEMPOTENCY_IN_PROGRESS'])
      t.match(headers.get('retry-after'), /^\d+$/)
    }
    if (request.signsOut) return
    const late = await send(t, route, keyed(request, key))
    t.strictSame([lasting(late.data), isReplayed(late)], [lasting(wanted[0]?.data), true])
  })
}

/** A caller who has left the organization is replayed nothing. */
async function whoHasLeft(t: Test, route: Route, { request, first }: { request: SeededRequest; first: Answer }) {
  const { admin } = api.database
  const { rows } = await admin.query('delete from memberships where user_id = $1 returning *', [
    (request.as ?? ours.person).id,
  ])
  const left = await send(t, route, request)
  for (const { org_id, user_id, role } of rows) {
    await admin.query('insert into memberships values ($1, $2, $3)', [org_id, user_id, role])
  }
  t.strictSame([left.status, left.code, isReplayed(left)], [404, 'NOT_FOUND', false], 'who has left')
  const back = await send(t, route, request)
  t.strictSame(
    [back.status, lasting(back.data), isReplayed(back)],
    [first.status, lasting(first.data), true],
    'a member again',
  )
}
