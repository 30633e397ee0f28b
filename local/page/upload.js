import { accessToken, call, Refusal, renew } from './client.js'

const CHUNK = 8 * 1024 * 1024
const AT_ONCE = 3
const ATTEMPTS = 6
const pause = (ms, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => (clearTimeout(timer), reject(signal.reason)), { once: true })
  })

/**
 * The upload of one file in chunks, several at a time. `run()` can be called again after a failure: it asks the API
 * which chunks have arrived and sends the rest. `onProgress(sentBytes)` is called while bytes are sent.
 */
export function uploadOf(organization, file, onProgress) {
  const base = `/api/media/${organization}`
  let started
  let stop = new AbortController()

  /** PUT with progress, which fetch does not report. */
  function put(path, blob, onSent, signal) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest()
      const abort = () => request.abort()
      request.open('PUT', `/v1${path}`)
      request.setRequestHeader('Authorization', `Bearer ${accessToken()}`)
      request.setRequestHeader('Content-Type', 'application/octet-stream')
      request.upload.onprogress = (event) => onSent(event.loaded)
      request.onload = () => {
        const error = request.status < 300 ? undefined : parse(request.responseText).error
        if (request.status < 300) resolve()
        else reject(new Refusal(request.status, error?.code, error?.message ?? `The platform answered ${request.status}`, error?.retry_after))
      }
      request.onerror = () => reject(new Refusal(0, 'OFFLINE', 'The platform cannot be reached'))
      request.onabort = () => reject(signal.reason ?? new DOMException('stopped', 'AbortError'))
      request.onloadend = () => signal.removeEventListener('abort', abort)
      signal.addEventListener('abort', abort, { once: true })
      request.send(blob)
    })
  }

  async function sendChunk(index, onSent, signal) {
    const blob = file.slice(index * started.chunk_size_bytes, (index + 1) * started.chunk_size_bytes)
    for (let attempt = 1; ; attempt++) {
      try {
        await put(`${base}/upload/${started.upload_id}/${index}`, blob, onSent, signal)
        onSent(blob.size)
        return
      } catch (error) {
        onSent(0)
        signal.throwIfAborted()
        if (error.status === 401) await renew()
        else if (attempt === ATTEMPTS || !mayPass(error)) throw error
        await pause(error.retryAfter ? error.retryAfter * 1000 : 300 * 2 ** attempt, signal)
      }
    }
  }

  async function missing() {
    const state = await call('GET', `${base}/upload/${started.upload_id}`)
    const has = (i) => state.received_ranges.some(([first, last]) => i >= first && i <= last)
    return Array.from({ length: started.total_chunks }, (_, i) => i).filter((i) => !has(i))
  }

  async function run() {
    stop = new AbortController()
    const { signal } = stop
    const isRepeat = started !== undefined
    started ??= await call('POST', `${base}/upload`, {
      filename: file.name,
      mime_type: file.type || 'video/mp4',
      file_size_bytes: file.size,
      chunk_size_bytes: CHUNK,
    })
    const all = Array.from({ length: started.total_chunks }, (_, i) => i)
    const queue = isRepeat ? await missing() : all
    const sent = new Map(all.filter((i) => !queue.includes(i)).map((i) => [i, sizeOf(i)]))
    const tell = (i) => (bytes) => {
      sent.set(i, Math.min(bytes, sizeOf(i)))
      onProgress([...sent.values()].reduce((a, b) => a + b, 0))
    }
    const worker = async () => {
      for (let i = queue.shift(); i !== undefined; i = queue.shift()) await sendChunk(i, tell(i), signal)
    }
    try {
      await Promise.all(Array.from({ length: AT_ONCE }, worker))
    } catch (error) {
      stop.abort(error) // the other chunks need not be sent
      throw error
    }
    return call('POST', `${base}/merge`, { upload_id: started.upload_id })
  }

  const sizeOf = (i) => Math.min(started.chunk_size_bytes, file.size - i * started.chunk_size_bytes)

  return {
    run,
    async cancel() {
      stop.abort(new DOMException('cancelled', 'AbortError'))
      if (started) await call('DELETE', `${base}/upload/${started.upload_id}`).catch(() => {})
    },
  }
}

/** Whether a retry can help. */
const mayPass = (error) => error.status === 0 || error.status === 429 || error.status >= 500 || error.code === 'CHECKSUM_MISMATCH'

function parse(text) {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}
