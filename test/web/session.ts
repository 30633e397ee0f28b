import t, { type Test } from 'tap'

/** The session of the page, and requests in it: no browser is needed for these. */

const { call, callIfChanged, signOut } = await import(new URL('../../web/lib/api.js', import.meta.url).href)

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
  t.intercept(globalThis as { caches?: unknown }, 'caches', { value: caches })
  const signIn = () =>
    localStorage.setItem(
      'keepsake.session',
      JSON.stringify({ id: 'one', access: 'old access', refresh: 'old refresh' }),
    )
  return { signIn, kept: () => JSON.parse(entries.get('keepsake.session') ?? 'null'), localStorage }
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

/** An API whose answers are given by path. The time of a request is over when the test says so. */
function apiOf(t: Test, answers: Record<string, () => Response | undefined>) {
  const limits: { ms: number; end: () => void }[] = []
  const timeout = (ms: number) => {
    const own = new AbortController()
    limits.push({ ms, end: () => own.abort(new DOMException('Too long', 'TimeoutError')) })
    return own.signal
  }
  t.intercept(AbortSignal, 'timeout', { value: timeout })
  const sent: string[] = []
  const bodies: unknown[] = []
  const value = (path: string, { signal, body }: RequestInit) => {
    sent.push(path)
    bodies.push(typeof body === 'string' ? JSON.parse(body) : undefined)
    const answer = answers[path]?.()
    if (answer) return Promise.resolve(answer)
    return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
  }
  t.intercept(globalThis, 'fetch', { value })
  return { sent, bodies, limits }
}

const json = (status: number, body: object) => Response.json(body, { status })

t.test('a renewal that is never answered is given up, and the next request renews', async (t) => {
  const { signIn, kept } = browserOf(t)
  signIn()
  let renewals = 0
  const { sent, limits } = apiOf(t, {
    '/v1/me': () => (kept().access === 'new access' ? json(200, { data: 'me' }) : json(401, {})),
    '/v1/api/auth/refresh': () => (renewals++ === 0 ? undefined : json(200, { data: NEW })),
    '/icon.svg': () => json(200, {}),
  })
  const first = call('GET', '/me')
  const asked = call('GET', '/me')
  await new Promise(setImmediate)
  while (!sent.includes('/v1/api/auth/refresh')) await new Promise(setImmediate)
  const [renewal] = limits.filter(({ ms }) => ms < 60_000)
  renewal?.end()
  await t.rejects(first, { status: 0, code: 'OFFLINE' })
  await t.rejects(asked, { status: 0, code: 'OFFLINE' }, 'who waits for the same one')
  t.match(kept(), { refresh: 'old refresh' }, 'the session goes on')
  t.equal(await call('GET', '/me'), 'me')
  t.equal(renewals, 2)
})

t.test('only an answer of the API ends a session that cannot be renewed', async (t) => {
  const { signIn, kept } = browserOf(t)
  t.intercept(globalThis as { dispatchEvent?: unknown }, 'dispatchEvent', { value: () => true })
  const of = (status: number, code: string) => () => json(status, { error: { code } })
  for (const [renewed, isKept] of [
    [() => new Response('default backend - 404', { status: 404 }), true],
    [() => new Response('<html>Sign in to the network</html>', { status: 401 }), true],
    [() => new Response('<html>Forbidden</html>', { status: 403 }), true],
    [() => new Response(null, { status: 408 }), true],
    [() => new Response(null, { status: 413 }), true],
    [of(429, 'RATE_LIMITED'), true],
    [of(503, 'AUTH_UNAVAILABLE'), true],
    [of(401, 'UNAUTHORIZED'), false],
    [of(404, 'NOT_FOUND'), false],
    [of(422, 'MFA_REQUIRED'), false],
    [of(400, 'VALIDATION_ERROR'), false],
  ] as const) {
    signIn()
    const { status } = renewed()
    const text = await renewed().text()
    const code = text.startsWith('{') ? JSON.parse(text).error.code : undefined
    // What stands before the API says nothing about what was asked for.
    const thrown = code ? { status, code } : { status: 503, code: 'AUTH_UNAVAILABLE' }
    await t.test(`${status} ${code ?? 'of something else'}`, async (t) => {
      apiOf(t, { '/v1/me': of(401, 'UNAUTHORIZED'), '/v1/api/auth/refresh': renewed })
      const error: unknown = await call('GET', '/me').catch((error: unknown) => error)
      t.match(error, thrown)
      t.equal(kept() !== null, isKept)
    })
  }
})

t.test('what is never answered is no connection, also in the middle of an answer', async (t) => {
  const { signIn } = browserOf(t)
  signIn()
  const stuck = () =>
    new Response(
      new ReadableStream({
        start: (body) => setImmediate(() => body.error(new DOMException('Too long', 'TimeoutError'))),
      }),
    )
  const { limits } = apiOf(t, { '/v1/stuck': stuck, '/icon.svg': () => json(200, {}) })
  for (const ask of [() => call('GET', '/silent'), () => callIfChanged('/silent')]) {
    const asked = ask()
    limits.at(-1)?.end()
    await t.rejects(asked, { status: 0, code: 'OFFLINE' })
  }
  for (const ask of [() => call('GET', '/stuck'), () => callIfChanged('/stuck')])
    await t.rejects(ask(), { code: 'OFFLINE' })
  void call('POST', '/merge', {}, undefined, { answerMs: 1 }).catch(() => {})
  t.equal(limits.at(-1)?.ms, 1, 'the caller says how long it may take')
})

t.test(
  'signing out ends the session of this browser; those of all devices only where one cannot end alone',
  async (t) => {
    const { kept, localStorage } = browserOf(t)
    const signedIn = (more: object) =>
      localStorage.setItem('keepsake.session', JSON.stringify({ id: 'one', access: 'a', refresh: 'r', ...more }))
    const done = () => new Response(null, { status: 204 })
    const notAlone = () => json(422, { error: { code: 'SESSION_NOT_REVOCABLE' } })
    const [own, list, all] = ['/v1/api/auth/sessions/ses_own', '/v1/api/auth/sessions', '/v1/api/auth/logout']
    const renewal = '/v1/api/auth/refresh'
    const renewed = () => json(200, { data: NEW })
    let ends = 0
    const expired = () => (ends++ === 0 ? json(401, {}) : done())
    const sessions = (current: boolean) => () =>
      json(200, {
        data: {
          sessions: [
            { session_id: 'ses_other', current: false },
            { session_id: 'ses_own', current },
          ],
        },
      })
    for (const [what, more, answers, sent, isEverywhere] of [
      ['its own', { signIn: 'ses_own' }, { [own]: done }, [own], false],
      ['kept by an earlier version', {}, { [list]: sessions(true), [own]: done }, [list, own], false],
      ['not alone', { signIn: 'ses_own' }, { [own]: notAlone, [all]: done }, [own, all], true],
      ['none says which', {}, { [list]: sessions(false), [all]: done }, [list, all], true],
      ['expired', { signIn: 'ses_own' }, { [own]: expired, [renewal]: renewed }, [own, renewal, own], false],
      [
        'ended',
        { signIn: 'ses_own' },
        { [own]: () => json(401, {}), [renewal]: () => json(401, {}) },
        [own, renewal],
        false,
      ],
      ['an outage', { signIn: 'ses_own' }, { [own]: () => json(503, {}) }, [own], false],
      ['no logout', { signIn: 'ses_own' }, { [own]: notAlone, [all]: () => json(503, {}) }, [own, all], false],
    ] as [string, object, Record<string, () => Response>, string[], boolean][]) {
      await t.test(what, async (t) => {
        signedIn(more)
        const api = apiOf(t, answers)
        const signedOut = signOut()
        t.equal(kept(), null, 'at once')
        t.equal(await signedOut, isEverywhere)
        t.strictSame(api.sent, sent)
        const refresh_token = sent.includes(renewal) && answers[renewal] === renewed ? 'new refresh' : 'r'
        t.strictSame(api.bodies.at(-1), { refresh_token }, 'which the provider is to forget')
        t.equal(kept(), null)
      })
    }
  },
)

t.test('a session knows what the API calls it, also after a refresh', async (t) => {
  const { kept } = browserOf(t)
  const tab = await newTab()
  tab.keep({ ...OLD, session_id: 'ses_1' }, 'one')
  t.match(kept(), { id: 'one', signIn: 'ses_1' })
  await tab.keepRefreshed({ ...NEW, session_id: 'ses_2' }, 'one')
  t.match(kept(), { id: 'one', signIn: 'ses_2' })
})
