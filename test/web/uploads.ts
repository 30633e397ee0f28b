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
const { newUploadQueue } = await import(new URL('../../web/uploads/queue.js', import.meta.url).href)
const { inTurn } = await import(new URL('../../web/uploads/turns.js', import.meta.url).href)

const nothing = () => {}
const told = { onProgress: nothing, onResume: nothing, onWait: nothing }
const uploadsOf = (file: File, more = {}) =>
  uploadOf({ org: 'org_1', file, type: 'image/jpeg', key: file.name, ...told, ...more })
const entryOf = (name: string) => JSON.parse(kept.get(`keepsake.upload.${name}`) ?? '{}')

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
  onerror?: () => void
  onabort?: () => void
  onloadend?: () => void
  open() {}
  setRequestHeader() {}
  send() {}
  abort() {
    this.onabort?.()
    this.onloadend?.()
  }
  lose() {
    this.onerror?.()
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

/** What the page asks the API besides the bytes, as `METHOD path`; `answer` has the `data` or the error. */
function calls(t: Test, answer: (call: string) => unknown) {
  const made: string[] = []
  const fetch = async (path: string, { method = 'GET' } = {}) => {
    const call = `${method} ${path.replace('/v1/api/media/org_1/', '')}`
    made.push(call)
    const data = await answer(call)
    if (data instanceof Error) {
      const status = data.message === 'NOT_FOUND' ? 404 : 409
      return Response.json({ error: { code: data.message } }, { status })
    }
    return data === undefined ? new Response(null, { status: 204 }) : Response.json({ data })
  }
  t.intercept(globalThis, 'fetch', { value: fetch })
  return made
}

/** A file that is canceled when only its answer is missing, which arrives then. */
async function canceledOnceSent(t: Test, name: string, more = {}) {
  const begun = Promise.withResolvers<FakeRequest>()
  requests(t, begun.resolve)
  const made = calls(t, () => undefined)
  const one = uploadsOf(new File(['photo'], name), more)
  const run = one.run()
  const request = await begun.promise
  request.upload.onload?.()
  const canceled: Promise<void> = one.cancel()
  canceled.catch(() => {})
  request.responseText = '{"data":{"media_id":"med_1"}}'
  request.answer()
  await t.rejects(run, { message: 'canceled' })
  // In an object: a promise that is returned would be awaited.
  return { canceled, made }
}

t.test('a file that is canceled once it has been sent is deleted when it has arrived', async (t) => {
  const { canceled, made } = await canceledOnceSent(t, 'late.jpg')
  await canceled
  t.strictSame(made, ['DELETE med_1'])
  t.equal(kept.get('keepsake.upload.late.jpg'), undefined)
})

t.test('a file that is canceled while it is sent is not there', async (t) => {
  const begun = Promise.withResolvers<FakeRequest>()
  requests(t, begun.resolve)
  const made = calls(t, () => undefined)
  const one = uploadsOf(new File(['photo'], 'early.jpg'))
  const run = one.run()
  await begun.promise
  const canceled = one.cancel()
  await t.rejects(run, { message: 'canceled' })
  await canceled
  t.strictSame(made, [])
})

/** An upload in chunks whose merge is under way. `answer` has what the API says about the rest. */
async function merging(t: Test, name: string, answer: (call: string) => unknown, more = {}) {
  requests(t, (request) => setImmediate(() => request.answer()))
  const merge = Promise.withResolvers<void>()
  const answers = (call: string) => {
    if (call === 'POST upload') return { upload_id: 'upl_1', total_chunks: 2, chunk_size_bytes: 8 * 1024 * 1024 }
    if (call === 'POST merge') merge.resolve()
    return answer(call)
  }
  const made = calls(t, answers)
  const one = uploadsOf(new File([new Uint8Array(9 * 1024 * 1024)], name), more)
  const run: Promise<string> = one.run()
  await merge.promise
  return { run, one, made }
}

t.test('a file that is canceled while it is merged is deleted when that is done', async (t) => {
  const merged = Promise.withResolvers<unknown>()
  const { run, one, made } = await merging(t, 'merged.jpg', (call) =>
    call === 'POST merge' ? merged.promise : undefined,
  )
  const canceled = one.cancel()
  merged.resolve({ media_id: 'med_1' })
  await t.rejects(run, { message: 'canceled' })
  await canceled
  t.strictSame(made, ['POST upload', 'POST merge', 'DELETE med_1'])
})

t.test('a file whose merge has succeeded unnoticed is deleted when it is canceled', async (t) => {
  let merges = 0
  const { run, one, made } = await merging(t, 'unnoticed.jpg', (call) => {
    if (call === 'DELETE upload/upl_1') return new Error('CONFLICT')
    return merges++ === 0 ? new Error('INTERNAL_ERROR') : { media_id: 'med_1' }
  })
  await t.rejects(run, { code: 'INTERNAL_ERROR' })
  await one.cancel()
  t.strictSame(made.slice(2), ['DELETE upload/upl_1', 'POST merge', 'DELETE med_1'])
})

t.test('a file that another tab shows as done is not deleted when this one cancels it', async (t) => {
  const requested: FakeRequest[] = []
  requests(t, (request) => void requested.push(request))
  const made = calls(t, () => undefined)
  const photo = new File(['photo'], 'tabs.jpg')
  const [here, there] = [uploadsOf(photo), uploadsOf(photo)]
  const [run, done] = [here.run(), there.run()]
  while (requested.length < 2) await new Promise(setImmediate)
  for (const request of requested) {
    request.upload.onload?.()
    request.responseText = '{"data":{"media_id":"med_1"}}'
  }
  const canceled = here.cancel()
  requested[1]?.answer()
  t.equal(await done, 'med_1')
  requested[0]?.answer()
  await t.rejects(run, { message: 'canceled' })
  await canceled
  t.strictSame(made, ['GET med_1'])
  t.match(entryOf('tabs.jpg'), { mediaId: 'med_1' })
})

t.test('a file that another tab merges while this one cancels it is not deleted', async (t) => {
  let merges = 0
  const { run, one, made } = await merging(t, 'merges.jpg', (call) => {
    if (call === 'DELETE upload/upl_1') return new Error('CONFLICT')
    if (merges++ === 0) return new Error('INTERNAL_ERROR')
    kept.set('keepsake.upload.merges.jpg', JSON.stringify({ ...entryOf('merges.jpg'), mediaId: 'med_1' }))
    return { media_id: 'med_1' }
  })
  await t.rejects(run, { code: 'INTERNAL_ERROR' })
  await one.cancel()
  t.strictSame(made.slice(2), ['DELETE upload/upl_1', 'POST merge'])
  t.match(entryOf('merges.jpg'), { mediaId: 'med_1' })
})

t.test('a half of a Live Photo that has arrived is not deleted with the other half when it is canceled', async (t) => {
  const { canceled, made } = await canceledOnceSent(t, 'live.heic', { pairId: 'pair_1' })
  await t.rejects(canceled, { code: 'PAIRED' })
  t.strictSame(made, [])
  t.match(entryOf('live.heic'), { mediaId: 'med_1' }, 'it is not sent again')
})

t.test('a half of a Live Photo that has been merged unnoticed is not deleted either', async (t) => {
  let merges = 0
  const answer = (call: string) => {
    if (call === 'DELETE upload/upl_1') return new Error('CONFLICT')
    return merges++ === 0 ? new Error('INTERNAL_ERROR') : { media_id: 'med_1' }
  }
  const { run, one, made } = await merging(t, 'live.mov', answer, { pairId: 'pair_1' })
  await t.rejects(run, { code: 'INTERNAL_ERROR' })
  await t.rejects(one.cancel(), { code: 'PAIRED' })
  t.strictSame(made.slice(2), ['DELETE upload/upl_1', 'POST merge'])
})

t.test('an upload that may have arrived although it was canceled says so, and is not sent again', async (t) => {
  const begun = Promise.withResolvers<FakeRequest>()
  requests(t, begun.resolve)
  let changed = nothing
  const queue = newUploadQueue({ onChange: () => changed(), onDone: nothing })
  queue.add('org_1', [{ path: 'lost.jpg', file: new File(['photo'], 'lost.jpg') }])
  const request = await begun.promise
  request.upload.onload?.()
  const [job] = queue.summary().sending
  queue.cancel(job)
  t.match(queue.summary(), { isBusy: true, sending: [{ state: 'canceling' }] }, 'the answer is awaited')
  const failed = new Promise<void>((resolve) => {
    changed = () => void (queue.summary().failed.length === 1 && resolve())
  })
  request.lose()
  await failed
  t.match(queue.summary(), { isBusy: false, failed: [{ note: /may have arrived/ }] })
  queue.retry()
  t.equal(queue.summary().isBusy, false)
  queue.cancel(job)
  t.equal(queue.summary().total, 0)
})

/** The requests of one upload, in their order. */
function requestsInTurn(t: Test) {
  const begun: FakeRequest[] = []
  const keys: string[] = []
  requests(t, (request) => void begun.push(request))
  t.intercept(FakeRequest.prototype, 'setRequestHeader', {
    value: (name: string, text: string) => name === 'Idempotency-Key' && keys.push(text),
  })
  const nth = async (i: number) => {
    await until(() => begun.length >= i)
    return begun[i - 1] as FakeRequest
  }
  return { nth, keys }
}
async function until(isSo: () => boolean) {
  while (!isSo()) await new Promise(setImmediate)
}
function refuse(request: FakeRequest, status: number, code: string) {
  Object.assign(request, { status, responseText: JSON.stringify({ error: { code } }) })
  request.answer()
}

t.test('a refusal does not hide that an earlier attempt may have arrived', async (t) => {
  const { nth, keys } = requestsInTurn(t)
  const made = calls(t, () => ({}))
  const photo = new File(['photo'], 'twice.jpg')
  const one = uploadsOf(photo)
  const run = one.run()
  const first = await nth(1)
  first.upload.onload?.()
  refuse(first, 500, 'INTERNAL_ERROR')
  const second = await nth(2)
  second.upload.onload?.()
  refuse(second, 403, 'FORBIDDEN')
  await t.rejects(run, { code: 'FORBIDDEN' })
  await t.rejects(one.cancel(), { code: 'ANSWER_LOST' })

  const again = uploadsOf(photo)
  const refused = again.run()
  refuse(await nth(3), 403, 'FORBIDDEN')
  await t.rejects(refused, { code: 'FORBIDDEN' })
  await t.rejects(again.cancel(), { code: 'ANSWER_LOST' }, 'also after a reload')

  const last = uploadsOf(photo).run()
  const third = await nth(4)
  third.responseText = '{"data":{"media_id":"med_1"}}'
  third.answer()
  t.equal(await last, 'med_1')
  t.equal(new Set(keys).size, 1, 'it does not arrive twice')
  t.strictSame(made, ['GET med_1'])
})

t.test('a file that was refused is not there', async (t) => {
  const { nth } = requestsInTurn(t)
  calls(t, () => undefined)
  const one = uploadsOf(new File(['photo'], 'refused.jpg'))
  const run = one.run()
  const request = await nth(1)
  request.upload.onload?.()
  refuse(request, 403, 'FORBIDDEN')
  await t.rejects(run, { code: 'FORBIDDEN' })
  await one.cancel()
  t.strictSame(entryOf('refused.jpg'), {})
})

t.test('a file that was deleted since its answer was lost is sent anew', async (t) => {
  const { nth, keys } = requestsInTurn(t)
  kept.set('keepsake.upload.deleted.jpg', JSON.stringify({ once: 'key_1', isSent: true, at: Date.now() }))
  calls(t, () => new Error('NOT_FOUND'))
  const run = uploadsOf(new File(['photo'], 'deleted.jpg')).run()
  for (const i of [1, 2]) {
    const request = await nth(i)
    request.responseText = `{"data":{"media_id":"med_${i}"}}`
    request.answer()
  }
  t.equal(await run, 'med_2')
  t.equal(keys[0], 'key_1')
  t.not(keys[1], 'key_1')
})

t.test('a file that another tab deletes while its answer is lost here is sent anew', async (t) => {
  const { nth, keys } = requestsInTurn(t)
  const asked = calls(t, () => new Error('NOT_FOUND'))
  const run = uploadsOf(new File(['photo'], 'two-tabs.jpg')).run()
  refuse(await nth(1), 500, 'INTERNAL_ERROR')
  for (const i of [2, 3]) {
    const request = await nth(i)
    request.responseText = `{"data":{"media_id":"med_${i}"}}`
    request.answer()
  }
  t.equal(await run, 'med_3')
  t.strictSame(asked, ['GET med_2'])
  t.equal(keys[0], keys[1])
  t.not(keys[1], keys[2])
})

t.test('what is canceled while it is sent again is not sent on, and may have arrived before', async (t) => {
  const { nth } = requestsInTurn(t)
  calls(t, () => undefined)
  kept.set('keepsake.upload.sent-before.jpg', JSON.stringify({ once: 'key_1', isSent: true, at: Date.now() }))
  const upload = uploadsOf(new File(['photo'], 'sent-before.jpg'))
  const run = upload.run()
  run.catch(() => {})
  await nth(1)
  // The fake request is aborted at once; nothing answers it otherwise.
  await t.rejects(upload.cancel(), { code: 'ANSWER_LOST' })
})

t.test('a large file that was deleted since it was merged is sent anew', async (t) => {
  requests(t, (request) => setImmediate(() => request.answer()))
  kept.set('keepsake.upload.large.jpg', JSON.stringify({ uploadId: 'upl_1', at: Date.now() }))
  const made = calls(t, (call) => {
    if (call === 'GET med_1') return new Error('NOT_FOUND')
    if (call === 'GET upload/upl_1') return { status: 'completed', media_id: 'med_1' }
    if (call === 'POST upload') return { upload_id: 'upl_2', total_chunks: 2, chunk_size_bytes: 8 * 1024 * 1024 }
    return { media_id: 'med_2' }
  })
  t.equal(await uploadsOf(new File([new Uint8Array(9 * 1024 * 1024)], 'large.jpg')).run(), 'med_2')
  t.strictSame(made, ['GET upload/upl_1', 'GET med_1', 'POST upload', 'POST merge'])
})

t.test('a file that is added again while it is canceled is sent once that has ended', async (t) => {
  const { nth, keys } = requestsInTurn(t)
  const removed = Promise.withResolvers<void>()
  const made = calls(t, () => removed.promise)
  const done: string[] = []
  const queue = newUploadQueue({ onChange: nothing, onDone: ({ name }: { name: string }) => done.push(name) })
  const add = () =>
    queue.add('org_1', [{ path: 'again.jpg', file: new File(['photo'], 'again.jpg', { lastModified: 1 }) }])
  add()
  const first = await nth(1)
  first.upload.onload?.()
  queue.cancel(queue.summary().sending[0])
  add()
  add()
  t.match(queue.summary(), { total: 2, waiting: 1, sending: [{ state: 'canceling' }] })
  first.responseText = '{"data":{"media_id":"med_1"}}'
  first.answer()
  await until(() => made.length === 1)
  t.equal(queue.summary().waiting, 1, 'the first one is being deleted')
  removed.resolve()
  const second = await nth(2)
  second.responseText = '{"data":{"media_id":"med_2"}}'
  second.answer()
  await until(() => done.length === 1)
  t.match(queue.summary(), { total: 1, done: 1, isBusy: false })
  t.strictSame(made, ['DELETE med_1'])
  t.not(keys[0], keys[1])
})

t.test('a file that is added again while its cancel fails is sent, and is not reported as failed', async (t) => {
  const { nth, keys } = requestsInTurn(t)
  calls(t, () => undefined)
  const queue = newUploadQueue({ onChange: nothing, onDone: nothing })
  const add = () =>
    queue.add('org_1', [{ path: 'fails.jpg', file: new File(['photo'], 'fails.jpg', { lastModified: 1 }) }])
  add()
  const first = await nth(1)
  first.upload.onload?.()
  queue.cancel(queue.summary().sending[0])
  add()
  first.lose()
  const second = await nth(2)
  t.equal(queue.summary().failed.length, 0)
  second.responseText = '{"data":{"media_id":"med_1"}}'
  second.answer()
  await until(() => !queue.summary().isBusy)
  t.match(queue.summary(), { total: 1, done: 1 })
  t.equal(keys[0], keys[1], 'it does not arrive twice')
})

t.test('a failed file that is added again while its upload is ended is sent once that has ended', async (t) => {
  requests(t, (request) => setImmediate(() => request.answer()))
  const ended = Promise.withResolvers<void>()
  let merges = 0
  const made = calls(t, (call) => {
    if (call === 'POST upload') return { upload_id: 'upl_1', total_chunks: 2, chunk_size_bytes: 8 * 1024 * 1024 }
    if (call === 'DELETE upload/upl_1') return ended.promise
    return merges++ === 0 ? new Error('INTERNAL_ERROR') : { media_id: 'med_1' }
  })
  const queue = newUploadQueue({ onChange: nothing, onDone: nothing })
  const large = new File([new Uint8Array(9 * 1024 * 1024)], 'large.jpg')
  queue.add('org_1', [{ path: 'failed.jpg', file: large }])
  await until(() => queue.summary().failed.length === 1)
  queue.cancel(queue.summary().failed[0])
  queue.add('org_1', [{ path: 'failed.jpg', file: large }])
  await new Promise(setImmediate)
  t.match(queue.summary(), { waiting: 1, sending: [] })
  ended.resolve()
  await until(() => !queue.summary().isBusy)
  t.strictSame(made, ['POST upload', 'POST merge', 'DELETE upload/upl_1', 'POST upload', 'POST merge'])
})

t.test('the request of an upload that is being canceled ends when the person leaves', async (t) => {
  const { nth } = requestsInTurn(t)
  const made = calls(t, () => undefined)
  const queue = newUploadQueue({ onChange: nothing, onDone: nothing })
  queue.add('org_1', [{ path: 'left.jpg', file: new File(['photo'], 'left.jpg') }])
  const request = await nth(1)
  let isAborted = false
  request.upload.onload?.()
  request.abort = () => {
    isAborted = true
    FakeRequest.prototype.abort.call(request)
  }
  queue.cancel(queue.summary().sending[0])
  t.equal(isAborted, false)
  queue.end()
  t.equal(isAborted, true)
  t.match(queue.summary(), { total: 0, isBusy: false })
  await new Promise(setImmediate)
  t.match(queue.summary(), { total: 0, isBusy: false })
  t.strictSame(made, [])
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

t.test('a few bodies are sent at once by all tabs together', async (t) => {
  const tab = (i: number) => import(`${new URL('../../web/uploads/turns.js', import.meta.url).href}?${i}`)
  const tabs = await Promise.all([1, 2].map(tab))
  const under: PromiseWithResolvers<string>[] = []
  const begun = async (count: number) => {
    while (under.length < count) await new Promise(setImmediate)
    await new Promise(setImmediate)
    return under.length
  }
  const work = () => {
    const one = Promise.withResolvers<string>()
    under.push(one)
    return one.promise
  }
  const { signal } = new AbortController()
  const stop = new AbortController()
  const first = [0, 0, 0, 1].map((i) => tabs[i].inTurn(work, signal))
  t.equal(await begun(4), 4)
  const stopped = tabs[1].inTurn(work, stop.signal)
  const others = [0, 1].map((i) => tabs[i].inTurn(work, signal))
  stop.abort(new Error('cancelled'))
  await t.rejects(stopped, { message: 'cancelled' })
  t.equal(await begun(4), 4, 'the others wait, in whichever tab')
  under[0]?.reject(new Error('lost'))
  await t.rejects(first[0], { message: 'lost' })
  t.equal(await begun(5), 5, 'one that has failed makes room')
  under[3]?.resolve('sent')
  t.equal(await begun(6), 6)
  for (const one of under) one.resolve('sent')
  await Promise.all([...first.slice(1), ...others])
  const isFree = async () => {
    const { held = [], pending = [] } = await navigator.locks.query()
    return held.length + pending.length === 0
  }
  while (!(await isFree())) await new Promise(setImmediate)
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
  const photo = new File(['photo'], 'photo.jpg')
  const waits = uploadOf({ of: 'a', org: 'org_1', file: photo, type: 'image/jpeg', key: 'photo', ...told }).run()
  await new Promise(setImmediate)
  signIn('b')
  held.resolve()
  await t.rejects(waits, { status: 401, message: 'The session has ended.' })
  await Promise.all(others)
  t.equal(sent, 0)
})
