import t, { type Test } from 'tap'
import type { Route } from '../../../api/http/route.ts'
import { cursors } from '../../../api/requests/cursor.ts'
import { systemClock } from '../../../lib/runtime/clock.ts'
import { type Answer, startTestApi, uuidOf } from '../../support/api.ts'
import { listed, listSeedOf, seedOf, send, sendTo, sidesOf } from '../../support/route-table.ts'
import type { SeededRequest } from './seeds/seed.ts'

/** Of every list, from the table of routes alone: its pages, its limits and its cursors. */
const api = await startTestApi(t)
sendTo(api)
const { ours, theirs } = sidesOf(api)

type Query = Record<string, string>
const asking = (request: SeededRequest, query: Query): SeededRequest => ({
  ...request,
  query: { ...request.query, ...query },
})

/** The social connections area shows bare UUIDs. */
const ID = /^([a-z]{3}_[0-9a-z]{26}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$/

/** The ids of a page's items: what an item shows first that looks like an id names it. */
function idsOf({ data }: Answer): string[] {
  const items = Object.values(data as Record<string, unknown>).find(Array.isArray) as Record<string, unknown>[]
  return items.map((item) => Object.values(item).find((value) => ID.test(String(value))) as string)
}

const largestLimit = (route: Route) => {
  const takes = (limit: number) => route.query?.safeParse({ limit: String(limit) }).success
  let most = 1
  while (takes(most + 1)) most += 1
  return most
}

/** Every page from the first to the last; `between` runs after each. */
async function pagesOf(t: Test, route: Route, request: SeededRequest, query: Query, between = async () => {}) {
  const pages: string[][] = []
  let cursor: string | null = null
  do {
    const answer = await send(t, route, asking(request, { ...query, ...(cursor !== null && { cursor }) }))
    t.equal(answer.status, 200)
    t.equal(answer.data.has_more, answer.data.next_cursor !== null)
    pages.push(idsOf(answer))
    cursor = answer.data.next_cursor
    await between()
  } while (cursor !== null && pages.length < 50)
  return pages
}

/** Requests of our side for all lists, made when they are first wanted. */
let asked: [Route, SeededRequest][] | undefined
async function everyList() {
  if (asked) return asked
  const made: [Route, SeededRequest][] = []
  // One after another: two that write the same row would wait for each other.
  for (const route of listed) made.push([route, await seedOf(route)(ours)])
  asked = made
  return asked
}

for (const route of listed) {
  const { operationId } = route
  const { add, filter = {} } = listSeedOf(route)
  const most = largestLimit(route)

  t.test(`${operationId}: its pages together are the list, each item once`, async (t) => {
    const request = await seedOf(route)(ours)
    const added = new Set<string>()
    for (let n = 0; n < 5; n++) added.add(await add(ours))
    t.equal(added.size, 5)
    const [whole = []] = await pagesOf(t, route, request, { limit: String(most) })
    for (const id of added) t.ok(whole.includes(id), id)
    for (const limit of [1, 3, whole.length, whole.length + 1]) {
      const pages = await pagesOf(t, route, request, { limit: String(limit) })
      t.strictSame(pages.flat(), whole, `pages of ${limit}`)
      t.strictSame(
        pages.slice(0, -1).map((page) => page.length),
        pages.slice(1).map(() => limit),
      )
    }
    // Seeds of other operations may have made items that the filter leaves out.
    const filtered = (await pagesOf(t, route, request, { ...filter, limit: '2' })).flat()
    const those = (ids: string[]) => ids.filter((id) => added.has(id))
    t.strictSame(those(filtered), those(whole), 'also under a filter')
  })

  t.test(
    `${operationId}: an item that is added while a client pages neither hides another nor appears twice`,
    async (t) => {
      const request = await seedOf(route)(ours)
      const before = (await pagesOf(t, route, request, { limit: String(most) })).flat()
      const late: string[] = []
      const pages = await pagesOf(t, route, request, { limit: '2' }, async () => {
        if (late.length < 5) late.push(await add(ours))
      })
      const seen = pages.flat()
      t.equal(new Set(seen).size, seen.length, 'none twice')
      t.strictSame(
        seen.filter((id) => !late.includes(id)),
        before,
        'none missing, in the same order',
      )
      const after = (await pagesOf(t, route, request, { limit: String(most) })).flat()
      t.strictSame(new Set(after), new Set([...before, ...late]))
    },
  )

  t.test(`${operationId}: limits are whole numbers within bounds`, async (t) => {
    const request = await seedOf(route)(ours)
    for (const limit of ['0', '-1', '1.5', 'x', '', '1e1', ' 1', String(most + 1), '9'.repeat(20)]) {
      const { status, code } = await send(t, route, asking(request, { limit }))
      t.strictSame([limit, status, code], [limit, 400, 'VALIDATION_ERROR'])
    }
    for (const limit of [1, most])
      t.equal((await send(t, route, asking(request, { limit: String(limit) }))).status, 200)
  })

  t.test(`${operationId}: a cursor that was not made for this very list is refused`, async (t) => {
    const request = await seedOf(route)(ours)
    await add(ours)
    await add(ours)
    const { next_cursor: cursor } = (await send(t, route, asking(request, { limit: '1' }))).data
    t.equal((await send(t, route, asking(request, { cursor }))).status, 200)
    await add(theirs)
    await add(theirs)
    const foreign = await send(t, route, asking(await seedOf(route)(theirs), { limit: '1' }))
    const org = uuidOf('organization', ours.org)
    const ofOther = cursors(api.config.CURSOR_KEY, systemClock).encode(
      { list: 'of nothing', org },
      { at: '2026-01-01T00:00:00.000000Z', id: org },
    )
    const middle = Math.floor(cursor.length / 2)
    const flipped = cursor[middle] === 'A' ? 'B' : 'A'
    const wrong: Record<string, string> = {
      words: 'nonsense',
      nothing: '',
      'no more than the prefix': 'cursor_',
      'one that was cut': cursor.slice(0, -2),
      'one that grew': `${cursor}AA`,
      'one with another letter': cursor.slice(0, middle) + flipped + cursor.slice(middle + 1),
      'one in capitals': cursor.toUpperCase(),
      'one of another organization': foreign.data.next_cursor,
      'one of another list': ofOther,
    }
    for (const [what, text] of Object.entries(wrong)) {
      const { status, code } = await send(t, route, asking(request, { cursor: text }))
      t.strictSame([status, code], [400, 'INVALID_CURSOR'], what)
    }
    if (Object.keys(filter).length > 0) {
      t.equal((await send(t, route, asking(request, { ...filter, cursor }))).code, 'INVALID_CURSOR', 'with a filter')
    }
    for (const [other, asked] of await everyList()) {
      if (other === route) continue
      const elsewhere = asking(asked, { cursor })
      t.equal((await send(t, other, elsewhere)).code, 'INVALID_CURSOR', `at ${other.operationId}`)
    }
    t.equal((await send(t, route, asking(request, { cursor: 'x'.repeat(3000) }))).status, 400)
  })
}
