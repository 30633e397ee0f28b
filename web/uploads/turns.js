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
  const waits = new AbortController()
  let hasBegun = false
  const leave = () => waits.abort()
  signal.addEventListener('abort', leave, { once: true })
  return new Promise((resolve, reject) => {
    const begin = () => {
      // Two may have become free at the same moment.
      if (waits.signal.aborted) return void failed()
      hasBegun = true
      waits.abort()
      const done = (async () => work())()
      done.then(resolve, reject)
      return done.catch(() => {})
    }
    // Once the work has begun, its own result counts.
    const failed = (error) => hasBegun || reject(signal.aborted ? signal.reason : error)
    for (const name of LOCKS) navigator.locks.request(name, { signal: waits.signal }, begin).catch(failed)
  }).finally(() => signal.removeEventListener('abort', leave))
}
