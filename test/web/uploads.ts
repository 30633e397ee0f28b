import t, { type Test } from 'tap'

/** Sending of bytes: no browser is needed for it. */

const kept = new Map<string, string>()
t.intercept(globalThis, 'localStorage', {
  value: {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, text: string) => void kept.set(key, text),
    removeItem: (key: string) => void kept.delete(key),
  },
})
const { send, uploadOf } = await import(new URL('../../web/uploads/upload.js', import.meta.url).href)
const { inTurn } = await import(new URL('../../web/uploads/turns.js', import.meta.url).href)

/** A request of a browser, as far as the page uses it; what happens to it is up to `begun`. */
function requests(t: Test, begun: (request: FakeRequest) => void) {
  class Request extends FakeRequest {
    override send() {
      begun(this)
    }
  }
  t.intercept(globalThis as { XMLHttpRequest?: unknown }, 'XMLHttpRequest', { value: Request })
  t.intercept(globalThis, 'fetch', { value: async () => new Response() })
}

class FakeRequest {
  upload: { onprogress?: (event: { loaded: number }) => void; onload?: () => void } = {}
  status = 200
  responseText = '{"data":"stored"}'
  onload?: () => void
  onabort?: () => void
  onloadend?: () => void
  open() {}
  setRequestHeader() {}
  send() {}
  abort() {
    this.onabort?.()
    this.onloadend?.()
  }
  answer() {
    this.onload?.()
    this.onloadend?.()
  }
}

const file = new Blob(['photo'])
const upload = (signal = new AbortController().signal, silentMs = 5) => {
  const sent: number[] = []
  const done = send('PUT', '/chunk', file, {
    headers: {},
    file,
    onSent: (n: number) => sent.push(n),
    signal,
    silentMs,
  })
  return { sent, done }
}

t.test('an upload that stands still is given up as a lost connection', async (t) => {
  requests(t, (request) => request.upload.onprogress?.({ loaded: 3 }))
  const { sent, done } = upload()
  await t.rejects(done, { status: 0, code: 'OFFLINE' })
  t.strictSame(sent, [3, 0])
})

t.test('the API may take its time with what it has', async (t) => {
  requests(t, (request) => {
    request.upload.onprogress?.({ loaded: 5 })
    request.upload.onload?.()
    setTimeout(() => request.answer(), 20)
  })
  t.strictSame(await upload().done, { data: 'stored' })
})

t.test('an upload that is stopped says why', async (t) => {
  const stop = new AbortController()
  requests(t, () => setImmediate(() => stop.abort(new DOMException('cancelled', 'AbortError'))))
  await t.rejects(upload(stop.signal, 60_000).done, { message: 'cancelled' })
})

t.test('a few bodies are sent at once, so that other requests find a connection', async (t) => {
  const under: PromiseWithResolvers<string>[] = []
  const work = () => {
    const one = Promise.withResolvers<string>()
    under.push(one)
    return one.promise
  }
  const { signal } = new AbortController()
  const first = Array.from({ length: 4 }, () => inTurn(work, signal))
  const stop = new AbortController()
  const stopped = inTurn(work, stop.signal)
  const fifth = inTurn(work, signal)
  await new Promise(setImmediate)
  t.equal(under.length, 4)
  stop.abort(new Error('cancelled'))
  await t.rejects(stopped, { message: 'cancelled' })
  under[2]?.reject(new Error('lost'))
  await t.rejects(first[2], { message: 'lost' })
  await new Promise(setImmediate)
  t.equal(under.length, 5, 'a failed one makes room, and a stopped one takes none')
  await t.rejects(inTurn(work, stop.signal), { message: 'cancelled' })
  for (const one of under) one.resolve('sent')
  t.equal(await fifth, 'sent')
  const again = Array.from({ length: 5 }, () => inTurn(work, signal))
  await new Promise(setImmediate)
  t.equal(under.length, 9)
  for (let i = 5; i < 10; i++) {
    under[i]?.resolve('sent')
    await new Promise(setImmediate)
  }
  t.strictSame(
    await Promise.all(again),
    Array.from({ length: 5 }, () => 'sent'),
  )
})

t.test('a file that waits for its turn is not sent once another person has signed in', async (t) => {
  let sent = 0
  requests(t, (request) => {
    sent++
    request.answer()
  })
  const signIn = (id: string) => kept.set('keepsake.session', JSON.stringify({ id, access: `of ${id}` }))
  signIn('a')
  const held = Promise.withResolvers<void>()
  const others = Array.from({ length: 4 }, () => inTurn(() => held.promise, new AbortController().signal))
  const nothing = () => {}
  const photo = new File(['photo'], 'photo.jpg')
  const told = { onProgress: nothing, onResume: nothing, onWait: nothing }
  const waits = uploadOf({ of: 'a', org: 'org_1', file: photo, type: 'image/jpeg', key: 'photo', ...told }).run()
  await new Promise(setImmediate)
  signIn('b')
  held.resolve()
  await t.rejects(waits, { status: 401, message: 'The session has ended.' })
  await Promise.all(others)
  t.equal(sent, 0)
})
