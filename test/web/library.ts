import t from 'tap'

/** The library of a group while many photos are converted, against an API of its own. No browser is needed here. */

const { libraryOf } = await import(new URL('../../web/library/store.js', import.meta.url).href)

interface Item {
  media_id: string
  created_at: string
  captured_at: string | null
  upload_status: 'processing' | 'completed'
}

const idOf = (kind: string, i: number) => `${kind}_${String(i).padStart(3, '0')}`
const takenAt = (m: Item) => m.captured_at ?? m.created_at
const uploaded = (kind: string, i: number, seconds: number, status: Item['upload_status']): Item => ({
  media_id: idOf(kind, i),
  created_at: new Date(Date.UTC(2026, 10, 27, 10, 0, seconds)).toISOString(),
  captured_at: null,
  upload_status: status,
})

/** Answers to what the page asks of a library with these media items. */
function answerTo(all: Item[], url: string) {
  const { pathname, searchParams: query } = new URL(url, 'http://localhost')
  if (pathname.endsWith('/months')) {
    const months = Map.groupBy(all, (m) => takenAt(m).slice(0, 7))
    return { months: [...months].map(([month, { length: count }]) => ({ month, count })) }
  }
  const id = /^\/v1\/api\/media\/org_\d\/(.+)$/.exec(pathname)?.[1]
  if (id) return structuredClone(all.find((m) => m.media_id === id))
  const keyOf = (m: Item) => (query.get('sort') ? takenAt(m) : m.created_at) + m.media_id
  const list = all.toSorted((a, b) => (keyOf(a) < keyOf(b) ? 1 : -1))
  const from = list.findIndex((m) => m.media_id === query.get('cursor')) + 1
  const media = structuredClone(list.slice(from, from + Number(query.get('limit'))))
  return { media, has_more: from + media.length < list.length, next_cursor: media.at(-1)?.media_id }
}

t.test('photos of a bulk upload leave “Just added” as they are converted', async (t) => {
  const known = Array.from({ length: 31 }, (_, i) => uploaded('old', i, i, 'completed'))
  const videos = Array.from({ length: 12 }, (_, i) => uploaded('video', i, 100 + i, 'processing'))
  const photos = Array.from({ length: 230 }, (_, i) => uploaded('photo', i, 200 + i, 'processing'))
  const all = [...known, ...videos, ...photos]
  t.intercept(globalThis, 'fetch', { value: async (url: string) => Response.json({ data: answerTo(all, url) }) })
  const library = libraryOf({ org_id: 'org_1' })
  const look = async (times: number) => {
    for (let i = 1; i < times; i++) await library.look()
    return library.look()
  }
  const places = () => {
    const months: { month: string; places: number }[] = library.months()
    return Object.fromEntries(months.map((m) => [m.month, m.places]))
  }
  await look(1)
  await library.load({ month: '2026-11', index: 30 })
  await look(1)
  t.match(places(), { arriving: 242, '2026-11': 31 }, 'a walk through the pages has found all of them')

  const convert = (items: Item[]) => {
    for (const m of items)
      Object.assign(m, { upload_status: 'completed', captured_at: '2023-06-10T10:00:00.000Z' } satisfies Partial<Item>)
  }
  convert(photos.slice(0, 60))
  await look(30)
  t.match(places(), { arriving: 182, '2023-06': 60, '2026-11': 31 }, 'also behind long videos')

  convert(photos.slice(60, 120))
  await look(1)
  await library.load({ month: '2023-06', index: 119 })
  const shown = library.months().flatMap((m: { items: Item[] }) => m.items.map(({ media_id }) => media_id))
  t.equal(new Set(shown).size, shown.length, 'what a page says is converted is shown once')

  convert([...videos, ...photos.slice(120)])
  const { total } = await look(30)
  t.match(places(), { '2023-06': 242, '2026-11': 31 })
  t.equal(places().arriving, undefined)
  t.equal(total, all.length)
})

t.test('the viewer goes through what is being converted in the order in which it is shown', async (t) => {
  const all = Array.from({ length: 5 }, (_, i) => uploaded('photo', i, i, 'processing'))
  t.intercept(globalThis, 'fetch', { value: async (url: string) => Response.json({ data: answerTo(all, url) }) })
  const library = libraryOf({ org_id: 'org_2' })
  await library.look()
  all.push(uploaded('photo', 5, 5, 'processing'))
  await library.look()
  const ids: string[] = library.months()[0].items.map((m: Item) => m.media_id)
  t.equal(ids[0], idOf('photo', 5))
  for (const [i, id] of ids.entries()) t.equal(library.neighbour(id, 1).item?.media_id, ids[i + 1])
})

t.test('what is in use is asked about once it is no longer known, and is dropped if it was deleted', async (t) => {
  const all = Array.from({ length: 6 }, (_, i) => uploaded('photo', i, i, 'completed'))
  const asked: string[] = []
  const answer = async (url: string) => {
    asked.push(url)
    const data = answerTo(all, url)
    return data ? Response.json({ data }) : Response.json({ error: { code: 'NOT_FOUND' } }, { status: 404 })
  }
  t.intercept(globalThis, 'fetch', { value: answer })
  const library = libraryOf({ org_id: 'org_3' })
  const dropped: string[] = []
  library.onDropped.add((id: string) => dropped.push(id))
  await library.look()
  await library.load({ month: '2026-11', index: 5 })
  const [gone, kept] = [idOf('photo', 2), idOf('photo', 4)]
  const chosen = [gone, kept].map((id) => library.find(id))
  library.inUse.add(() => chosen)
  all.splice(2, 1)
  for (let i = 0; i < 3; i++) await library.look()
  await library.load({ month: '2026-11', index: 4 })
  await library.look()
  t.strictSame(dropped, [gone])
  await library.look()
  t.equal(asked.filter((url) => url.endsWith(gone)).length, 1)
  t.equal(asked.filter((url) => url.endsWith(kept)).length, 0)
})
