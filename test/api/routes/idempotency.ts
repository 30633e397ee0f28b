import t from 'tap'
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
const isReplayed = ({ headers }: Answer) => headers.get('idempotency-replayed') === 'true'
const keptUnder = async (key: string) =>
  (await api.database.admin.query('select from idempotency_keys where key = $1', [key])).rowCount

const hasBody = (route: Route) => route.body !== undefined || route.bodyKind !== undefined

for (const route of ROUTES.filter(takesIdempotencyKey)) {
  t.test(`${route.operationId}: a repeat gets the same answer and does nothing`, async (t) => {
    const [request, key] = [await seedOf(route)(ours), newUuid()]
    const before = await traces(api)
    const first = await send(t, route, keyed(request, key))
    t.equal(first.status, route.status)
    t.notOk(isReplayed(first))
    const after = await traces(api)
    t.notSame(after, before, 'the first has an effect')
    const again = await send(t, route, keyed(request, key))
    if (request.signsOut) t.equal(again.status, 401)
    else t.strictSame([again.status, again.data, isReplayed(again)], [first.status, first.data, true])
    t.strictSame(await traces(api), after, 'the repeat has none')
  })

  t.test(`${route.operationId}: many at once under one key are one`, async (t) => {
    const [request, key] = [await seedOf(route)(ours), newUuid()]
    const answers = await Promise.all(Array.from({ length: 6 }, () => send(t, route, keyed(request, key))))
    const wanted = answers.filter(({ status }) => status === route.status)
    t.equal(wanted.filter((answer) => !isReplayed(answer)).length, 1, 'one does it')
    for (const { data } of wanted) t.strictSame(data, wanted[0]?.data)
    for (const { status, code, headers } of answers.filter((answer) => !wanted.includes(answer))) {
      if (request.signsOut && status === 401) continue
      t.strictSame([status, code], [409, 'IDEMPOTENCY_IN_PROGRESS'])
      t.match(headers.get('retry-after'), /^\d+$/)
    }
    if (request.signsOut) return
    const late = await send(t, route, keyed(request, key))
    t.strictSame([late.data, isReplayed(late)], [wanted[0]?.data, true])
  })

  t.test(`${route.operationId}: the same key with another request is refused`, async (t) => {
    const [request, other, key] = [await seedOf(route)(ours), await seedOf(route)(ours), newUuid()]
    if (!hasBody(route) || request.signsOut) return void t.pass('there is no other request')
    await send(t, route, keyed(request, key))
    const before = await traces(api)
    const refused = await send(t, route, keyed({ ...other, ...(request.as && { as: request.as }) }, key))
    t.strictSame([refused.status, refused.code], [422, 'IDEMPOTENCY_KEY_REUSED'])
    t.strictSame(await traces(api), before, 'and has no effect')
  })

  t.test(`${route.operationId}: nothing is kept for a refusal, and the key stays free`, async (t) => {
    const [request, key] = [await seedOf(route)(ours), newUuid()]
    const [refused, expected] = isInOrganization(route)
      ? [{ ...request, as: api.people.stranger }, 404]
      : hasBody(route)
        ? [{ ...request, json: 7 }, 400]
        : [{ ...request, headers: { authorization: 'Bearer none' } }, 401]
    const { status } = await send(t, route, keyed(refused, key))
    t.equal(status, expected)
    t.equal(await keptUnder(key), 0)
    t.equal((await send(t, route, keyed(request, key))).status, route.status)
    t.equal(await keptUnder(key), 1)
  })

  if (isInOrganization(route) && !admitsGuests(route)) {
    t.test(`${route.operationId}: a caller who has left the organization is replayed nothing`, async (t) => {
      const [request, key] = [await seedOf(route)(ours), newUuid()]
      const first = await send(t, route, keyed(request, key))
      t.equal(first.status, route.status)
      const { rows } = await api.database.admin.query('delete from memberships where user_id = $1 returning *', [
        (request.as ?? ours.person).id,
      ])
      const left = await send(t, route, keyed(request, key))
      for (const { org_id, user_id, role } of rows) {
        await api.database.admin.query('insert into memberships values ($1, $2, $3)', [org_id, user_id, role])
      }
      t.strictSame([left.status, left.code, isReplayed(left)], [404, 'NOT_FOUND', false])
      const back = await send(t, route, keyed(request, key))
      t.strictSame([back.status, back.data, isReplayed(back)], [first.status, first.data, true], 'a member again')
    })
  }

  t.test(`${route.operationId}: a key is one person’s`, async (t) => {
    if (!isInOrganization(route)) return void t.pass('the caller is all that matters')
    const key = newUuid()
    for (const side of [ours, theirs]) {
      const answer = await send(t, route, keyed(await seedOf(route)(side), key))
      t.strictSame([answer.status, isReplayed(answer)], [route.status, false])
    }
  })

  t.test(`${route.operationId}: a key that is none is refused`, async (t) => {
    const request = await seedOf(route)(ours)
    const before = await traces(api)
    for (const key of [' ', 'a b', 'x'.repeat(256)]) {
      const { status, code } = await send(t, route, keyed(request, key))
      t.strictSame([status, code], [400, 'VALIDATION_ERROR'], JSON.stringify(key))
    }
    t.strictSame(await traces(api), before)
  })
}
