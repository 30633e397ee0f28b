import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'

/** What the page knows of a library, against a server of its own: any pages, any order of looking, any changes between. */

interface Item {
  media_id: string
  created_at: string
  captured_at: string | null
  name?: string
}
interface Start {
  cursor: string | undefined
  from: string | undefined
}
interface Timeline {
  setMonths(months: { month: string; count: number }[]): void
  startFor(month: string, index: number): Start | undefined
  receive(
    start: Start,
    page: { media: Item[]; has_more: boolean; next_cursor: string | null },
    isElsewhere?: (m: Item) => boolean,
  ): void
  restart(): void
  put(m: Item): void
  drop(id: string): void
  find(id: string): Item | undefined
  neighbour(id: string, step: number): { item?: Item; missing?: { month: string; index: number } }
  trim(limit: number, near: Set<string>): void
  months(): { month: string; count: number; places: number; items: Item[]; isStale: boolean }[]
  total(): number
}
// The page has no types, and no build.
const module = new URL('../../web/library/timeline.js', import.meta.url).href
const { newTimeline } = (await import(module)) as { newTimeline(): Timeline }

const takenAt = (m: Item) => m.captured_at ?? m.created_at
const monthOf = (m: Item) => takenAt(m).slice(0, 7)
const positionOf = (m: Item) => `${takenAt(m)}|${m.media_id}`

class Server {
  items: Item[] = []
  pageSize: number
  pages = 0
  constructor(pageSize: number) {
    this.pageSize = pageSize
  }
  sorted = () => this.items.toSorted((a, b) => (positionOf(a) < positionOf(b) ? 1 : -1))
  months() {
    const counts = new Map<string, number>()
    for (const m of this.sorted()) counts.set(monthOf(m), (counts.get(monthOf(m)) ?? 0) + 1)
    return [...counts].map(([month, count]) => ({ month, count }))
  }
  page(cursor: string | undefined) {
    this.pages++
    const rest = this.sorted().filter((m) => cursor === undefined || positionOf(m) < cursor)
    const media = rest.slice(0, this.pageSize)
    const has_more = rest.length > media.length
    const last = media.at(-1)
    return { media, has_more, next_cursor: has_more && last ? positionOf(last) : null }
  }
}

/** Loads as the page does. Every page must bring it nearer. */
function load(server: Server, timeline: Timeline, month: string, index: number): void {
  for (let pages = 0; ; pages++) {
    const start = timeline.startFor(month, index)
    if (!start) return
    if (pages > server.items.length + 2) throw new Error(`Walks for ever towards ${month}`)
    timeline.receive(start, server.page(start.cursor))
  }
}

function loadAll(server: Server, timeline: Timeline): void {
  for (const { month } of timeline.months()) load(server, timeline, month, Number.POSITIVE_INFINITY)
}

const shown = (timeline: Timeline) => timeline.months().flatMap(({ items }) => items.map((m) => m.media_id))

const item = fc.record({
  media_id: fc.uuid(),
  created_at: fc.date({ min: new Date('2026-01-01'), max: new Date('2026-02-01'), noInvalidDate: true }),
  captured_at: fc.option(fc.date({ min: new Date('2025-06-01'), max: new Date('2026-02-01'), noInvalidDate: true })),
})
const items = fc.uniqueArray(item, { selector: (m) => m.media_id, maxLength: 60 }).map((all) =>
  all.map(
    (m): Item => ({
      ...m,
      created_at: m.created_at.toISOString(),
      captured_at: m.captured_at?.toISOString() ?? null,
    }),
  ),
)
/** The page and the server, and everything that can happen to them. */
class World {
  readonly server: Server
  readonly timeline = newTimeline()
  readonly later: Item[]
  constructor(all: readonly Item[], pageSize: number) {
    this.server = new Server(pageSize)
    this.server.items = all.slice(all.length / 3)
    this.later = all.slice(0, all.length / 3)
    this.look()
  }
  look = () => {
    this.timeline.setMonths(this.server.months())
    const newest = this.server.items.toSorted((a, b) => (a.created_at < b.created_at ? 1 : -1))
    for (const m of newest.slice(0, 3)) this.timeline.put(m)
  }
  load = (i: number) => {
    const month = at(this.timeline.months(), i)
    if (month) load(this.server, this.timeline, month.month, i % 7)
  }
  add = () => void this.server.items.push(...this.later.splice(0, 1))
  remove = (i: number) => void this.server.items.splice(i % Math.max(1, this.server.items.length), 1)
  /** The conversion finds out when it was taken. */
  move = (i: number) => {
    const m = at(this.server.items, i)
    if (m) this.server.items[this.server.items.indexOf(m)] = { ...m, captured_at: '2025-09-09T09:09:09.000Z' }
  }
  trim = () =>
    this.timeline.trim(
      5,
      new Set(
        this.timeline
          .months()
          .slice(0, 1)
          .map((r) => r.month),
      ),
    )
  restart = () => this.timeline.restart()
}
const at = <T>(list: readonly T[], i: number) => list[i % Math.max(1, list.length)]

const EVENTS = ['look', 'load', 'add', 'remove', 'move', 'trim', 'restart'] as const
const steps = fc.array(fc.record({ what: fc.constantFrom(...EVENTS), i: fc.nat(200) }), { maxLength: 25 })

t.test('a media item that comes again in the next page of its month is shown there', async (t) => {
  const made = { created_at: '2026-01-01T00:00:00.000Z' }
  const item = { ...made, media_id: 'a', captured_at: '2025-09-09T09:09:09.001Z' }
  const other = { ...made, media_id: 'b', captured_at: '2025-06-01T00:00:00.000Z' }
  const server = new Server(1)
  const timeline = newTimeline()
  server.items = [item, other]
  timeline.setMonths(server.months())
  load(server, timeline, '2025-09', 0)
  server.items = [{ ...item, captured_at: '2025-09-09T09:09:09.000Z' }, other]
  load(server, timeline, '2025-09', 1)
  t.strictSame(shown(timeline), [item.media_id, other.media_id])
  t.equal(timeline.find(item.media_id)?.captured_at, '2025-09-09T09:09:09.000Z')
})

t.test('whatever happens in between, it ends with what the server has, in its order', async () => {
  fc.assert(
    fc.property(items, steps, fc.integer({ min: 1, max: 9 }), (all, script, pageSize) => {
      const world = new World(all, pageSize)
      const { server, timeline } = world
      for (const { what, i } of script) {
        world[what](i)
        const ids = shown(timeline)
        assert.equal(new Set(ids).size, ids.length, 'a media item is shown twice')
      }
      // Counts tell of what others added and deleted. A change that keeps them is found when a month is loaded anew.
      timeline.trim(0, new Set())
      for (let i = 0; i < 3; i++) {
        world.look()
        loadAll(server, timeline)
      }
      const wanted = server.sorted().map((m) => m.media_id)
      assert.deepEqual(shown(timeline), wanted)
      assert.equal(timeline.total(), wanted.length)
    }),
    { numRuns: 1000 },
  )
})

const of = (month: string, count: number): Item[] =>
  Array.from({ length: count }, (_, i) => ({
    media_id: `med_${month}_${String(i).padStart(3, '0')}`,
    created_at: '2026-01-01T00:00:00.000Z',
    captured_at: `${month}-10T00:00:${String(i).padStart(2, '0')}.000Z`,
  }))

function library(pageSize: number, ...months: [string, number][]) {
  const server = new Server(pageSize)
  server.items = months.flatMap(([month, count]) => of(month, count))
  const timeline = newTimeline()
  timeline.setMonths(server.months())
  return { server, timeline }
}

t.test('counts what there is, before any of it is loaded', async (t) => {
  const { timeline } = library(5, ['2025-12', 30], ['2025-03', 12])
  t.match(timeline.months(), [
    { month: '2025-12', count: 30, places: 30, items: [] },
    { month: '2025-03', count: 12, places: 12, items: [] },
  ])
  t.equal(timeline.total(), 42)
})

t.test('loads no more than is asked for, and goes on from there', async (t) => {
  const { server, timeline } = library(10, ['2025-12', 40])
  load(server, timeline, '2025-12', 4)
  t.equal(server.pages, 1)
  load(server, timeline, '2025-12', 12)
  t.equal(server.pages, 2)
})

t.test('reaches a month that was dropped from memory from the nearest newer one', async (t) => {
  const { server, timeline } = library(10, ['2025-12', 40], ['2025-11', 40], ['2025-10', 40], ['2025-09', 40])
  loadAll(server, timeline)
  timeline.trim(0, new Set(['2025-12']))
  t.equal(shown(timeline).length, 40)
  server.pages = 0
  load(server, timeline, '2025-09', 0)
  t.ok(server.pages <= 2, `${server.pages} pages`)
  t.equal(timeline.months().at(-1)?.items[0]?.media_id, 'med_2025-09_039')
})

t.test('a media item that another member deleted disappears after two looks', async (t) => {
  const { server, timeline } = library(10, ['2025-12', 5], ['2025-11', 5])
  loadAll(server, timeline)
  server.items = server.items.filter((m) => m.media_id !== 'med_2025-12_002')
  const stale = () => timeline.months().map(({ isStale }) => isStale)
  timeline.setMonths(server.months())
  t.strictSame(stale(), [false, false], 'one look may be of another moment')
  timeline.setMonths(server.months())
  t.strictSame(stale(), [true, false], 'no place of it is empty, so that it has to say so')
  t.equal(shown(timeline).length, 10, 'shows what it knows until it has loaded the month again')
  load(server, timeline, '2025-12', 4)
  t.notOk(timeline.find('med_2025-12_002'))
  t.equal(shown(timeline).length, 9)
  t.strictSame(stale(), [false, false])
})

t.test('it also disappears from a month that is not loaded to its end', async (t) => {
  const { server, timeline } = library(10, ['2025-12', 35])
  load(server, timeline, '2025-12', 15)
  t.ok(timeline.find('med_2025-12_030'))
  server.items = server.items.filter((m) => m.media_id !== 'med_2025-12_030')
  timeline.setMonths(server.months())
  t.equal(timeline.months()[0]?.isStale, false, 'more may change')
  timeline.setMonths(server.months())
  t.equal(timeline.months()[0]?.isStale, true)
  t.equal(shown(timeline).length, 20, 'shows what it knows until it has loaded that again')
  server.pages = 0
  load(server, timeline, '2025-12', 19)
  t.notOk(timeline.find('med_2025-12_030'))
  t.equal(shown(timeline).length, 20)
  t.equal(server.pages, 2, 'what was not known before is not loaded')
  t.equal(timeline.months()[0]?.isStale, false)
  timeline.setMonths(server.months())
  t.equal(timeline.months()[0]?.isStale, false)
  load(server, timeline, '2025-12', 33)
  t.strictSame(
    shown(timeline),
    server.sorted().map((m) => m.media_id),
  )
})

t.test('a walk arrives although the count changes all the time', async (t) => {
  const { server, timeline } = library(10, ['2025-12', 200])
  for (let pages = 0; timeline.startFor('2025-12', 149); pages++) {
    if (pages > 20) throw new Error('It does not arrive')
    const start = timeline.startFor('2025-12', 149)
    if (start) timeline.receive(start, server.page(start.cursor))
    server.items.pop()
    timeline.setMonths(server.months())
  }
  t.ok(shown(timeline).length >= 150)
})

t.test('pages of nothing but what stands elsewhere do not end the months behind them, nor the walk', async (t) => {
  const { server, timeline } = library(10, ['2025-12', 25], ['2025-11', 5])
  const isElsewhere = (m: Item) => monthOf(m) === '2025-12'
  // All that is known of December stands elsewhere.
  const look = () => timeline.setMonths([{ month: '2025-11', count: 5 }])
  look()
  for (let pages = 0; timeline.startFor('2025-11', 4); pages++) {
    if (pages > 5) throw new Error('Walks for ever')
    const start = timeline.startFor('2025-11', 4)
    if (start) timeline.receive(start, server.page(start.cursor), isElsewhere)
    t.match(timeline.months(), [{ month: '2025-11', places: 5 }], `after page ${pages}`)
    look()
  }
  t.equal(server.pages, 3)
  t.equal(shown(timeline).length, 5)
})

t.test('what is deleted here is known already', async (t) => {
  const { server, timeline } = library(10, ['2025-12', 35])
  load(server, timeline, '2025-12', 15)
  server.items = server.items.filter((m) => m.media_id !== 'med_2025-12_030')
  timeline.drop('med_2025-12_030')
  timeline.setMonths(server.months())
  timeline.setMonths(server.months())
  t.equal(timeline.months()[0]?.isStale, false)
})

t.test('goes from one media item to the next, also across months and into what is not loaded', async (t) => {
  const { server, timeline } = library(2, ['2025-12', 2], ['2025-11', 1], ['2025-10', 3])
  load(server, timeline, '2025-11', 0)
  t.strictSame(timeline.neighbour('med_2025-12_001', -1), {})
  t.match(timeline.neighbour('med_2025-12_000', 1), { item: { media_id: 'med_2025-11_000' } })
  t.match(timeline.neighbour('med_2025-11_000', -1), { item: { media_id: 'med_2025-12_000' } })
  load(server, timeline, '2025-10', 0)
  t.match(timeline.neighbour('med_2025-10_002', 1), { missing: { month: '2025-10', index: 1 } })
  loadAll(server, timeline)
  t.strictSame(timeline.neighbour('med_2025-10_000', 1), {})
  t.strictSame(timeline.neighbour('med_unknown', 1), {})
})

t.test('a media item that is converted moves to the month in which it was taken', async (t) => {
  const { server, timeline } = library(10, ['2025-12', 2], ['2025-11', 2])
  loadAll(server, timeline)
  const moved = { ...(timeline.find('med_2025-12_001') as Item), captured_at: '2025-11-20T00:00:00.000Z' }
  timeline.put(moved)
  t.strictSame(shown(timeline), ['med_2025-12_000', 'med_2025-12_001', 'med_2025-11_001', 'med_2025-11_000'])
  t.equal(timeline.months()[1]?.items.length, 3)
  timeline.drop('med_2025-12_001')
  t.equal(shown(timeline).length, 3)
})
