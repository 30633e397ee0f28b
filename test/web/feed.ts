import t from 'tap'

/** What the page makes of streams of events, and of a feed that grows. No browser is needed here. */

const load = (name: string) => import(new URL(`../../web/${name}.js`, import.meta.url).href)
const { newParser } = await load('lib/event-stream')
const { follow } = await load('lib/follow')
const { merged, newFeed } = await load('timeline/store')
const { linkOf, newsOf, picturesOf, sentenceOf } = await load('timeline/words')

const parse = (...pieces: string[]) => {
  const parser = newParser()
  const messages = pieces.flatMap((piece) => parser.push(piece))
  return { messages: messages.map((m: { event: string; data: string }) => `${m.event}|${m.data}`), parser }
}

t.test('messages of an event stream', async (t) => {
  const table: [string, string, string[]][] = [
    ['named', 'event: changed\ndata: {}\n\n', ['changed|{}']],
    ['without a name', 'data: a\n\n', ['message|a']],
    ['several lines', 'data: a\ndata:\ndata:  b\n\n', ['message|a\n\n b']],
    ['without data', 'event: bye\n\n', ['bye|']],
    ['comments', ':\n\n: hello\n\ndata: a\n\n', ['message|a']],
    ['CRLF and CR', 'data: a\r\n\r\ndata: b\r\rdata: c\n\n', ['message|a', 'message|b', 'message|c']],
    ['a byte order mark', '\uFEFFdata: a\n\n', ['message|a']],
    ['fields without a colon', 'data\nevent\n\n', ['message|']],
    ['unknown fields', 'datum: a\ndata: b\n\n', ['message|b']],
    ['one that has not ended', 'data: a\n', []],
    ['a colon in the data', 'data: a: b\n\n', ['message|a: b']],
  ]
  for (const [what, text, wanted] of table) {
    t.strictSame(parse(text).messages, wanted, what)
    t.strictSame(parse(...text).messages, wanted, `${what}, one letter at a time`)
  }
  const { parser } = parse('id: 7\nretry: 1500\n\nid: 8\0\nretry: soon\ndata: a\n\nid: 9\n')
  t.strictSame([parser.id, parser.retry], ['7', 1500], 'ids end with their message')
})

/** Answers of a server to one request for a stream after the other, and what the client did. */
async function followed(
  answers: (((signal: AbortSignal) => Response | Promise<Response>) | { status: number; retryAfter?: number })[],
  { polls = [] as boolean[], lastId = undefined as string | undefined, silentMs = 5000 } = {},
) {
  const ending = new AbortController()
  const seen: string[] = []
  let opened = 0
  await follow(
    {
      async open(id: string | undefined, signal: AbortSignal) {
        seen.push(`open ${id}`)
        const answer = answers[opened++]
        if (!answer) {
          ending.abort()
          throw new Error('aborted')
        }
        if (typeof answer === 'function') return answer(signal)
        throw Object.assign(new Error('refused'), answer)
      },
      async poll() {
        seen.push('poll')
        return polls.shift() ?? false
      },
      async pause(ms: number) {
        seen.push(`pause ${ms}`)
      },
      changed(orgIds: string[] | undefined, id: string | undefined) {
        seen.push(`changed ${orgIds} ${id}`)
      },
    },
    { signal: ending.signal, lastId, silentMs, random: () => 1 },
  )
  return seen
}
const events = (text: string) => () => new Response(text)
const OPEN = 'changed undefined undefined'

t.test('a stream is followed, and gone on with from its last position', async (t) => {
  const first = 'retry: 2000\nid: a\n\nevent: changed\nid: b\ndata: {"org_ids":["org_1"]}\n\n'
  t.strictSame(await followed([events(`${first}event: bye\ndata: {}\n\n`), events('')]), [
    ...['open undefined', OPEN, 'changed org_1 b', 'pause 2000'],
    ...['open b', 'pause 1000', 'open b'],
  ])
})

t.test('after a reset everything may have changed', async (t) => {
  const text = 'event: reset\nid: c\ndata: {}\n\n'
  t.strictSame(await followed([events(text)], { lastId: 'old' }), [
    'open old',
    'changed undefined c',
    'pause 1000',
    'open c',
  ])
})

t.test('what is replaced does not come back at once, and looks meanwhile', async (t) => {
  const seen = await followed([events('event: replaced\ndata: {}\n\n')], { lastId: 'a', polls: [false, true] })
  t.strictSame(seen.slice(0, 6), ['open a', 'poll', 'pause 10000', 'poll', OPEN, 'pause 10000'])
  t.equal(seen.filter((what) => what === 'poll').length, 30)
})

t.test(
  'where streams are refused, it looks every ten seconds and asks for a stream again later and later',
  async (t) => {
    const seen = await followed([{ status: 503, retryAfter: 20 }, { status: 404 }, { status: 404 }], { lastId: 'a' })
    t.strictSame(seen, [
      ...['open a', 'poll', 'pause 10000', 'poll', 'pause 10000'],
      ...['open a', 'poll', 'pause 2000', 'open a', 'poll', 'pause 4000', 'open a'],
    ])
  },
)

t.test('without a connection it waits, and does not look', async (t) => {
  const seen = await followed([{ status: 0 }, { status: 0 }, events('')], { lastId: 'a' })
  t.strictSame(seen, ['open a', 'pause 1000', 'open a', 'pause 2000', 'open a', 'pause 1000', 'open a'])
})

t.test('a stream that says nothing any more is given up', async (t) => {
  const silent = (signal: AbortSignal) =>
    new Response(
      new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode('id: z\n\n'))
          signal.addEventListener('abort', () => controller.error(new Error('aborted')))
        },
      }),
    )
  t.strictSame(await followed([silent], { lastId: 'a', silentMs: 20 }), ['open a', 'pause 1000', 'open z'])
})

interface Item {
  timeline_item_id: string
  count?: number
}
const items = (text: string): Item[] => [...text].map((id) => ({ timeline_item_id: id }))
const text = (list: Item[]) => list.map((item) => item.timeline_item_id).join('')

t.test('what a look has found is put above what was known', async (t) => {
  const table: [string, string, boolean, string, number][] = [
    ['', 'ab', false, 'ab', 0],
    ['abcd', 'xyab', true, 'xyabcd', 2],
    ['abcd', 'acd', false, 'acd', 0],
    ['abcdef', 'acd', true, 'acdef', 0],
    ['abcd', 'axbc', true, 'axbcd', 0],
    ['abcd', 'wxyz', true, 'wxyz', 4],
    ['abcd', '', false, '', 0],
  ]
  for (const [known, found, has_more, wanted, added] of table) {
    const result = merged(items(known), { items: items(found), has_more })
    t.strictSame([text(result.items), result.added], [wanted, added], `${known} and ${found}`)
  }
  const grown = merged(items('ab'), { items: [{ timeline_item_id: 'a', count: 7 }], has_more: true })
  t.strictSame([text(grown.items), grown.items[0].count], ['ab', 7], 'an item that has grown stays in its place')
})

t.test('pages and looks meet: nothing twice, nothing lost', async (t) => {
  let all = Array.from({ length: 90 }, (_, i) => ({ timeline_item_id: String(i).padStart(3, '0') }))
  const feed = newFeed(async ({ limit, cursor }: { limit: number; cursor?: string }) => {
    await new Promise((resolve) => setImmediate(resolve))
    const from = cursor ? all.findIndex((item) => item.timeline_item_id === cursor) + 1 : 0
    const page = all.slice(from, from + limit)
    return { items: page, has_more: from + limit < all.length, next_cursor: page.at(-1)?.timeline_item_id ?? null }
  })
  t.equal((await feed.look()).items.length, 20)
  const looks = [feed.more(), feed.look(), feed.more()]
  all = [{ timeline_item_id: 'new' }, ...all]
  await Promise.all([...looks, feed.look(), feed.more(), feed.more()])
  const { items: shown, hasMore } = await feed.more()
  t.strictSame(
    shown.map((item: Item) => item.timeline_item_id),
    all.map((item) => item.timeline_item_id),
  )
  t.notOk(hasMore)
})

/** Cursors as the API makes them: each is good for a day. */
function daysOf<T>(all: () => T[], name: string) {
  const tooOld = () => Object.assign(new Error('too old'), { code: 'INVALID_CURSOR' })
  const server = {
    day: 0,
    async load({ limit = 20, cursor }: { limit?: number; cursor?: string | undefined }) {
      const [day, from] = cursor ? cursor.split(':').map(Number) : [server.day, 0]
      if (day !== server.day || from === undefined) throw tooOld()
      const page = all().slice(from, from + limit)
      return { [name]: page, has_more: from + limit < all().length, next_cursor: `${server.day}:${from + limit}` }
    },
  }
  return server
}

t.test('a feed that stays open for days goes on behind its last item', async (t) => {
  const itemAt = (n: number) => ({
    timeline_item_id: String(n),
    created_at: new Date(Date.UTC(2026, 0, 1) - n * 1000).toISOString(),
  })
  let all = Array.from({ length: 400 }, (_, n) => itemAt(n))
  const server = daysOf(() => all, 'items')
  const feed = newFeed(server.load)
  await feed.look()
  for (let n = 0; n < 6; n++) await feed.more()
  server.day++
  all = [itemAt(-1), ...all.filter((_, n) => n !== 139)]
  await feed.look()
  const { items: shown } = await feed.more()
  t.ok(shown.length > 140, `${shown.length} items`)
  const ids = (list: Item[]) => list.map((item) => item.timeline_item_id)
  t.strictSame(ids(shown), ids(all.slice(0, shown.length)), 'each once, without the one that is gone')
  let last = await feed.more()
  while (last.hasMore) last = await feed.more()
  t.strictSame(ids(last.items), ids(all))
  const failing = newFeed(async ({ cursor }: { cursor?: string }) => {
    if (cursor) throw Object.assign(new Error('offline'), { code: 'OFFLINE' })
    return { items: [itemAt(0)], has_more: true, next_cursor: 'a' }
  })
  await failing.look()
  await t.rejects(failing.more(), { code: 'OFFLINE' }, 'other failures are told')
})

t.test('an album that stays open for days goes on behind its last page', async (t) => {
  const server = daysOf(() => Array.from({ length: 100 }, (_, n) => n), 'media')
  const { fetch } = globalThis
  t.teardown(() => {
    globalThis.fetch = fetch
  })
  globalThis.fetch = async (url) => {
    const cursor = new URL(String(url), 'https://keepsake.example').searchParams.get('cursor') ?? undefined
    return server.load({ cursor }).then(
      (data) => Response.json({ data }),
      ({ code }) => Response.json({ error: { code } }, { status: 400 }),
    )
  }
  const { newPager } = await load('albums/pager')
  const pager = newPager('/media', 'media')
  await pager.more()
  await pager.more()
  server.day++
  await pager.more()
  t.strictSame(
    pager.items(),
    Array.from({ length: 60 }, (_, n) => n),
  )
  t.ok(pager.hasMore())
})

t.test('items in words', async (t) => {
  t.strictSame(sentenceOf({ actor_name: 'Mira', summary: 'Mira added 3 photos' }), {
    name: 'Mira',
    text: 'added 3 photos',
  })
  for (const name of ['A former member', 'A member'])
    t.strictSame(sentenceOf({ actor_name: null, summary: `${name} added a photo` }), { name, text: 'added a photo' })
  t.strictSame(sentenceOf({ actor_name: null, summary: 'added a photo' }).name, 'Someone', 'the summary of a service')
  t.match(linkOf({ type: 'event_created', event_id: 'evt_1', album_id: null }), { href: '/#event=evt_1' })
  t.match(linkOf({ type: 'album_updated', event_id: 'evt_1', album_id: 'alb_1' }), { href: '/#album=alb_1' })
  t.match(linkOf({ type: 'comment_posted', event_id: 'evt_1', album_id: 'alb_1' }), { href: '/#event=evt_1' })
  t.equal(linkOf({ type: 'member_joined', event_id: null, album_id: null }), undefined)
  const media = [{ media_id: 'a', image_thumb_url: 'x', image_webp_url: null, placeholder: null }]
  t.match(picturesOf({ media, count: 5000 }), {
    shown: [{ media_id: 'a', variants: { image_thumb_url: 'x' } }],
    more: 4999,
  })
  t.strictSame(picturesOf({ media: [], count: null }), { shown: [], more: 0 })
  t.strictSame([newsOf(3), newsOf(250)], ['3 new', '99+ new'])
})
