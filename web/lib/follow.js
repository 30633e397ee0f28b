import { messagesOf, newParser } from './event-stream.js'

/** How long a stream may say nothing: the API says something every 15 s. A phone may lose its network without a word. */
const SILENT_MS = 40_000
const FIRST_RETRY_MS = 1000
const MAX_RETRY_MS = 60_000
const POLL_MS = 10_000
/** The API has given the place of this stream to another one: two that come back at once would replace each other for ever. */
const REPLACED_MS = 300_000

/** Aborted when one of them is. */
const abortable = (signal) => {
  const own = new AbortController()
  const abort = () => own.abort()
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort)
  return { signal: own.signal, abort, end: () => signal.removeEventListener('abort', abort) }
}

/**
 * Follows changes of feeds until `signal` is aborted: by a stream, and by polling where streams are refused. `does`:
 * - `open(lastId, signal)` resolves with the answer of the stream, or rejects with a Refusal (`status` 0: no connection).
 * - `poll(signal)` looks whether there is something new, and returns that.
 * - `pause(ms, signal)` resolves after that time at the latest.
 * - `changed(orgIds, id)` is told; without `orgIds`, everything may have changed. `id` is the position to go on from.
 * `lastId` is the position of an earlier stream. Times in milliseconds.
 */
export async function follow(does, { signal, lastId, silentMs = SILENT_MS, random = Math.random }) {
  const at = { id: lastId, failures: 0 }
  while (!signal.aborted) {
    const ended = await stream(does, at, { signal, silentMs }).catch((error) => ({ error }))
    if (signal.aborted) return
    const pause = pauseAfter(ended, at, random)
    // What may be missed until the next stream is open is looked for meanwhile.
    if (ended.isReplaced || isRefusal(ended.error)) await pollFor(pause, does, signal)
    else await does.pause(pause, signal)
  }
}

/** The API has answered, and not with a stream. */
const isRefusal = (error) => error?.status > 0

function pauseAfter({ error, isReplaced, retry }, at, random) {
  if (isReplaced) return REPLACED_MS
  if (!error) {
    at.failures = 0
    return retry ?? FIRST_RETRY_MS
  }
  at.failures++
  const wait = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** (at.failures - 1))
  return Math.max(wait * (0.5 + random() / 2), (error.retryAfter ?? 0) * 1000)
}

/** One stream from its first message to its end: `{retry, isReplaced}`. */
async function stream({ open, changed }, at, { signal, silentMs }) {
  const own = abortable(signal)
  const parser = newParser()
  let watch = setTimeout(own.abort, silentMs)
  try {
    const response = await open(at.id, own.signal)
    // Whatever changed between the last look of a view and the stream is not told.
    if (at.id === undefined) changed(undefined)
    const heard = () => {
      at.failures = 0
      clearTimeout(watch)
      watch = setTimeout(own.abort, silentMs)
    }
    for await (const { event, data } of messagesOf(response, parser, heard)) {
      if (event === 'replaced') return { isReplaced: true }
      if (event === 'reset') changed(undefined, parser.id)
      if (event === 'changed') changed(orgIdsOf(data), parser.id)
      if (event === 'bye') return { retry: parser.retry }
    }
    return { retry: parser.retry }
  } finally {
    // Also of a stream that broke, and of a position that came without a message.
    at.id = parser.id ?? at.id
    clearTimeout(watch)
    own.abort()
    own.end()
  }
}

function orgIdsOf(data) {
  try {
    const { org_ids } = JSON.parse(data)
    return Array.isArray(org_ids) ? org_ids : undefined
  } catch {
    return undefined
  }
}

async function pollFor(ms, { poll, pause, changed }, signal) {
  for (let left = ms; left > 0 && !signal.aborted; left -= POLL_MS) {
    if (await poll(signal).catch(() => false)) changed(undefined)
    await pause(Math.min(POLL_MS, left), signal)
  }
}
