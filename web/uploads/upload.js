import { accessToken, call, offline, Refusal, refusalFrom, renew } from '../lib/api.js'
import { isOnline, setOnline, untilOnline } from '../lib/connection.js'
import { session } from '../lib/session.js'
import { forget, recall, remember } from './memory.js'
import { inTurn } from './turns.js'

/** Files up to this size are sent whole: one request instead of three. */
const WHOLE = 8 * 1024 * 1024
const CHUNK = 8 * 1024 * 1024
const AT_ONCE = 2
const ATTEMPTS = 6
/** How long an upload may stand still: a phone may lose its network without a word. */
const SILENT_MS = 60_000
/** How long the API may take to store and to merge bytes that it has. */
const ANSWER_MS = 600_000
/** Another request with the same Idempotency-Key has not been answered yet. */
const IN_PROGRESS = 'IDEMPOTENCY_IN_PROGRESS'
const pause = (ms, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener(
      'abort',
      () => {
        clearTimeout(timer)
        reject(signal.reason)
      },
      { once: true },
    )
  })

/**
 * The upload of one file. `run()` resolves to the id of the media item, and can be called again after a failure, also
 * after a reload of the page: what has arrived is not sent again, and `onResume(bytes)` says how much that is.
 * `onProgress(sentBytes)` is called while bytes are sent, `onWait(text)` while it waits. `key` names the file in the memory of uploads,
 * `of` the session of the person who chose it: nothing is sent in another one.
 */
export function uploadOf({ of, org, file, type, pairId, key, onProgress, onResume, onWait }) {
  const base = `/api/media/${org}`
  const pairing = pairId ? { live_photo_pair_id: pairId } : {}
  let stop = new AbortController()
  /** Of the request that sends the whole file. */
  let halt = new AbortController()
  /** Whether all of that has been sent, so that only its answer is missing. */
  let isWhole = false
  /**
   * Whether the file may arrive even if nothing waits for an answer. A refusal clears it for its own attempt only: an earlier
   * one, whose answer was lost, may have arrived.
   */
  let isSent = false
  let running
  /** What comes after the person has left is kept for no other one. */
  const note = (more) => session()?.id === of && remember(key, { ...recall(key), ...(pairId && { pairId }), ...more })

  async function run() {
    stop = new AbortController()
    halt = new AbortController()
    isSent = false
    const { signal } = stop
    const { mediaId } = recall(key)
    const isThere = mediaId && (await exists(mediaId))
    signal.throwIfAborted()
    if (isThere) {
      onResume(file.size)
      return mediaId
    }
    if (mediaId) forget(key)
    running = file.size <= WHOLE ? sendWhole(signal) : sendInChunks(signal)
    const id = await running
    signal.throwIfAborted()
    note({ mediaId: id })
    return id
  }

  const exists = (mediaId) =>
    patiently(() => call('GET', `${base}/${mediaId}`), stop.signal).then(
      () => true,
      (error) => {
        if (error.status === 404) return false
        throw error
      },
    )

  async function sendWhole(signal) {
    // The key is kept before the request: when its answer is lost, a repeat gets that answer and makes nothing new. With
    // another pair id it would be another request.
    const known = recall(key)
    const before = known.pairId === pairId && known.once ? known : {}
    const once = before.once ?? crypto.randomUUID()
    isSent = before.isSent === true
    note({ once, isSent })
    let tries = 0
    const inTurn = () => {
      tries += 1
      return attempt(once)
    }
    const answer = await patiently(() => ownTurn(inTurn, signal), signal)
    const { media_id: id } = answer.data
    // The answer to an earlier request stays the same when the media item has been deleted since, also by another tab.
    if ((!before.once && tries === 1) || (await exists(id))) return id
    forget(key)
    return sendWhole(signal)
  }

  async function attempt(once) {
    const form = new FormData()
    for (const [name, value] of Object.entries(pairing)) form.append(name, value)
    form.append('file', new Blob([file], { type }), file.name)
    const wasSent = isSent
    isWhole = false
    const onAllSent = () => {
      isWhole = true
      isSent = true
      note({ isSent })
    }
    const headers = { 'Idempotency-Key': once }
    const sending = { headers, file, signal: halt.signal, onSent: onProgress, onAllSent }
    try {
      return await send('POST', `${base}/single`, form, sending)
    } catch (error) {
      if (isRefused(error)) {
        isSent = wasSent
        note({ isSent })
      }
      throw error
    }
  }

  async function sendInChunks(signal) {
    const { uploadId } = recall(key)
    const known = uploadId && (await patiently(() => call('GET', `${base}/upload/${uploadId}`), signal).catch(ifGone))
    // It stays completed when the media item has been deleted since.
    if (known?.status === 'completed' && (await exists(known.media_id))) return known.media_id
    // An open one goes on; one that is being merged is merged again, which changes nothing.
    const started = known && ['open', 'merging'].includes(known.status) ? known : await start(signal)
    await sendMissing(started, signal)
    const merged = await patiently(() => ownTurn(() => merge(started.upload_id), signal), signal)
    return merged.media_id
  }

  const merge = (id) => call('POST', `${base}/merge`, { upload_id: id }, undefined, { answerMs: ANSWER_MS })

  async function start(signal) {
    const body = {
      filename: file.name,
      mime_type: type,
      file_size_bytes: file.size,
      chunk_size_bytes: CHUNK,
      ...pairing,
    }
    const started = await patiently(() => call('POST', `${base}/upload`, body), signal)
    note({ uploadId: started.upload_id })
    return { ...started, received_ranges: [] }
  }

  async function sendMissing(started, signal) {
    const sizeOf = (i) => Math.min(started.chunk_size_bytes, file.size - i * started.chunk_size_bytes)
    const has = (i) =>
      started.status === 'merging' || started.received_ranges.some(([first, last]) => i >= first && i <= last)
    const all = Array.from({ length: started.total_chunks }, (_, i) => i)
    const queue = all.filter((i) => !has(i))
    const sent = new Map(all.filter(has).map((i) => [i, sizeOf(i)]))
    onResume([...sent.values()].reduce((a, b) => a + b, 0))
    const worker = async () => {
      for (let i = queue.shift(); i !== undefined; i = queue.shift()) {
        const from = i * started.chunk_size_bytes
        const onSent = (bytes) => {
          sent.set(i, Math.min(bytes, sizeOf(i)))
          onProgress([...sent.values()].reduce((a, b) => a + b, 0))
        }
        const headers = { 'Content-Type': 'application/octet-stream' }
        const path = `${base}/upload/${started.upload_id}/${i}`
        const blob = file.slice(from, from + sizeOf(i))
        await patiently(() => ownTurn(() => send('PUT', path, blob, { headers, file, onSent, signal }), signal), signal)
        onSent(sizeOf(i))
      }
    }
    try {
      await Promise.all(Array.from({ length: AT_ONCE }, worker))
    } catch (error) {
      stop.abort(error) // the other chunks need not be sent
      throw error
    }
  }

  function requireOwn() {
    if (session()?.id !== of) throw new Refusal(401, 'UNAUTHORIZED', 'The session has ended.')
  }

  /** While it waited for its turn, another person may have signed in. */
  const ownTurn = (work, signal) =>
    inTurn(() => {
      requireOwn()
      return work()
    }, signal)

  /**
   * Repeats what a repeat can help. A request that came too soon is no failure: it waits as long as the API asks. A lost
   * connection is none either, however long it lasts.
   */
  async function patiently(work, signal) {
    const tries = { failed: 1, lost: 1 }
    for (;;) {
      requireOwn()
      try {
        return await work()
      } catch (error) {
        signal.throwIfAborted()
        await untilNext(error, attemptAfter(error, tries), signal)
      }
    }
  }

  async function untilNext(error, attempt, signal) {
    // The bytes are not sent again before there are new tokens.
    if (error.status === 401) return patiently(() => renew(), signal)
    const { status, retryAfter } = error
    if (!isOnline()) onWait('Waiting for the connection')
    await untilOnline(signal)
    const seconds = Math.max(retryAfter ?? 0, status === 429 ? 0 : 0.3 * 2 ** Math.min(attempt, ATTEMPTS))
    if (seconds > 3 && status !== 0) onWait(`Continues in ${Math.ceil(seconds)} s`)
    await pause(seconds * 1000, signal)
  }

  function end(why, isAwaited = false) {
    const reason = new DOMException(why, 'AbortError')
    stop.abort(reason)
    if (!isAwaited) halt.abort(reason)
  }

  const always = new AbortController().signal
  const remove = (path) => patiently(() => call('DELETE', `${base}/${path}`), always).catch(ifGone)

  /**
   * Keeps what another tab shows as done. Deleting one half of a Live Photo deletes the other one too, which the person has
   * not canceled: the API pairs them as soon as both are there.
   */
  async function removeMedia(mediaId) {
    if (recall(key).mediaId) return
    if (pairId ?? recall(key).pairId) {
      note({ mediaId })
      throw new Refusal(undefined, 'PAIRED', 'The other half would be deleted too.')
    }
    await remove(mediaId)
  }

  /** One that is being merged, or has been, cannot be ended: its media item is deleted. */
  async function removeUpload(id) {
    try {
      await remove(`upload/${id}`)
    } catch (error) {
      if (error.code !== 'CONFLICT') throw error
      const merged = await patiently(() => ownTurn(() => merge(id), always), always)
      await removeMedia(merged.media_id)
    }
  }

  return {
    run,
    /**
     * Stops sending, and deletes what has arrived. Waits for the answer to what has been sent: the file may arrive until
     * then. Rejects when it may be there all the same.
     */
    async cancel() {
      end('canceled', isWhole)
      const arrived = await running?.catch(() => {})
      const { mediaId, uploadId } = recall(key)
      // An earlier upload has brought the file, or one of another tab, which shows it as done.
      if (mediaId) return
      if (arrived) await removeMedia(arrived)
      else if (uploadId) await removeUpload(uploadId)
      // The key of the request is kept: with it, the file does not arrive a second time when it is added again.
      else if (isSent) throw new Refusal(undefined, 'ANSWER_LOST', 'The answer was lost.')
      if (!recall(key).mediaId) forget(key)
    },
    /** Stops sending and keeps what has arrived. */
    pause: () => end('stopped'),
  }
}

const ifGone = (error) => {
  if (error.status !== 404) throw error
}

/**
 * A request with bytes of `file`, and with progress, which fetch does not report. It is given up, as if the connection were
 * lost, when none is made for a while. `onAllSent()` is called when only the answer is missing. Times in milliseconds.
 */
export function send(method, path, body, { headers, file, onSent, onAllSent, signal, silentMs = SILENT_MS }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    const abort = () => request.abort()
    const lost = () => {
      onSent(0)
      void whyLost(file).then(reject)
    }
    let watch
    const expect = (ms) => {
      clearTimeout(watch)
      watch = setTimeout(() => {
        request.onabort = lost
        abort()
      }, ms)
    }
    request.open(method, `/v1${path}`)
    request.setRequestHeader('Authorization', `Bearer ${accessToken()}`)
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value)
    request.upload.onprogress = (event) => {
      expect(silentMs)
      onSent(event.loaded)
    }
    request.upload.onload = () => {
      onAllSent?.()
      expect(ANSWER_MS)
    }
    request.onload = () => {
      setOnline(true)
      const answer = parse(request.responseText)
      if (request.status < 300) return resolve(answer)
      onSent(0)
      reject(refusalFrom(request.status, answer))
    }
    request.onerror = lost
    request.onabort = () => reject(signal.reason ?? new DOMException('stopped', 'AbortError'))
    request.onloadend = () => {
      clearTimeout(watch)
      signal.removeEventListener('abort', abort)
    }
    signal.addEventListener('abort', abort, { once: true })
    expect(silentMs)
    request.send(body)
  })
}

/**
 * A browser reports a file that was moved or changed since it was chosen as it reports a lost connection. Without one, a file
 * of a network folder cannot be read either.
 */
const whyLost = (file) =>
  file
    .slice(0, 1)
    .arrayBuffer()
    .then(offline, () =>
      navigator.onLine
        ? new Refusal(undefined, 'FILE_UNREADABLE', 'The file cannot be read any more. Choose it again.')
        : offline(),
    )

/** The number of the next attempt. Throws what a repeat cannot help, and what has been repeated often enough. */
function attemptAfter(error, tries) {
  if (error.status === 0) return ++tries.lost
  if (error.status === 429) return tries.failed
  if (tries.failed === ATTEMPTS || !mayPass(error)) throw error
  return ++tries.failed
}

/** Whether the attempt has not arrived. While another one with the same key is under way, that one may arrive. */
const isRefused = ({ status, code }) => status >= 400 && status < 500 && code !== IN_PROGRESS

/** Whether a retry can help. */
const mayPass = (error) =>
  error.status === 401 || error.status >= 500 || ['CHECKSUM_MISMATCH', IN_PROGRESS].includes(error.code)

function parse(text) {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}
