/**
 * Browsers open six connections to an origin over HTTP/1.1, for all tabs together. The stream of changes has one of them,
 * and one is left for the rest of the page: a request that waits for a connection would be given up as lost. A merge takes
 * one as well, for minutes.
 */
const AT_ONCE = 4
const LOCKS = Array.from({ length: AT_ONCE }, (_, i) => `keepsake.turn.${i}`)

let free = AT_ONCE
const waiting = []

/**
 * Does `work` when fewer than four are under way in all tabs; without locks (a page that did not come over HTTPS), in this
 * one. Rejects when `signal` is aborted before that.
 */
export async function inTurn(work, signal) {
  signal.throwIfAborted()
  await turn(signal)
  try {
    signal.throwIfAborted()
    return await (globalThis.navigator?.locks ? amongTabs(work, signal) : work())
  } finally {
    const next = waiting.shift()
    if (next) next()
    else free++
  }
}

function turn(signal) {
  if (free > 0) return void free--
  return new Promise((resolve, reject) => {
    const leave = () => {
      waiting.splice(waiting.indexOf(begin), 1)
      reject(signal.reason)
    }
    const begin = () => {
      signal.removeEventListener('abort', leave)
      resolve()
    }
    signal.addEventListener('abort', leave, { once: true })
    waiting.push(begin)
  })
}

/** Waits for whichever of the locks is free first, and gives up its place for the others. */
function amongTabs(work, signal) {
  const found = new AbortController()
  const either = AbortSignal.any([signal, found.signal])
  return new Promise((resolve, reject) => {
    const begin = () => {
      // Two may have become free at the same moment.
      if (either.aborted) return undefined
      found.abort()
      const done = (async () => work())()
      done.then(resolve, reject)
      return done.catch(() => {})
    }
    for (const name of LOCKS)
      navigator.locks.request(name, { signal: either }, begin).catch((error) => {
        if (!found.signal.aborted) reject(signal.aborted ? signal.reason : error)
      })
  })
}
