import t, { type Test } from 'tap'

/** The session of the page, and requests in it: no browser is needed for these. */

let loads = 0
/** As a tab that was just opened. */
const newTab = () => import(`${new URL('../../web/lib/session.js', import.meta.url).href}?${++loads}`)

const OLD = { access_token: 'old access', refresh_token: 'old refresh' }
const NEW = { access_token: 'new access', refresh_token: 'new refresh' }

/** What the tabs of a browser share. `broken` are the methods of the cache that refuse. */
function browserOf(t: Test, broken: Set<string> = new Set()) {
  const [entries, cached] = [new Map<string, string>(), new Map<string, Response>()]
  const may = (name: string) => {
    if (broken.has(name)) throw new DOMException('Refused', 'QuotaExceededError')
  }
  const cache = {
    async put(path: string, response: Response) {
      may('put')
      cached.set(path, response)
    },
    async match(path: string) {
      may('match')
      return cached.get(path)?.clone()
    },
  }
  const localStorage = {
    getItem: (key: string) => entries.get(key) ?? null,
    setItem: (key: string, text: string) => void entries.set(key, text),
    removeItem: (key: string) => void entries.delete(key),
  }
  const caches = {
    async open() {
      may('open')
      return cache
    },
    delete: async () => cached.clear(),
  }
  t.intercept(globalThis, 'localStorage', { value: localStorage })
  t.intercept(globalThis, 'caches', { value: caches })
  return { kept: () => JSON.parse(entries.get('keepsake.session') ?? 'null'), localStorage }
}

t.test('new tokens are kept, also where the cache refuses them', async (t) => {
  for (const broken of [[], ['open'], ['put'], ['match'], ['put', 'match']]) {
    browserOf(t, new Set(broken))
    const tab = await newTab()
    tab.keep(OLD, 'one')
    t.match(await tab.latest(), { access: 'old access' }, `${broken} refuses`)
    await tab.keepRefreshed(NEW, 'one')
    t.match(tab.session(), { id: 'one', access: 'new access', refresh: 'new refresh' }, `${broken} refuses`)
    t.match(await tab.latest(), { refresh: 'new refresh' }, `${broken} refuses`)
  }
})

t.test('the tokens of the last refresh count, wherever they are', async (t) => {
  const broken = new Set<string>()
  const { kept, localStorage } = browserOf(t, broken)
  const tab = await newTab()
  tab.keep(OLD, 'one')
  const before = JSON.stringify(kept())
  await tab.keepRefreshed(NEW, 'one')
  localStorage.setItem('keepsake.session', before)
  t.match(await tab.latest(), { access: 'new access' }, 'a write to localStorage is seen late')
  broken.add('put')
  await tab.keepRefreshed({ access_token: 'newer access', refresh_token: 'newer refresh' }, 'one')
  t.match(await tab.latest(), { access: 'newer access' }, 'the cache did not take these')
  t.match(kept(), { access: 'newer access' })
  tab.keep(OLD, 'two')
  t.match(await tab.latest(), { id: 'two', access: 'old access' }, 'nothing of another session')
})
