/**
 * Browsers open six connections to an origin over HTTP/1.1. The stream of changes has one of them, and one is left for the
 * rest of the page: a request that waits for a connection would be given up as lost. A merge takes one as well, for minutes.
 */
const AT_ONCE = 4

let free = AT_ONCE
const waiting = []

/** Does `work` when fewer than four are under way. Rejects when `signal` is aborted before that. */
export async function inTurn(work, signal) {
  signal.throwIfAborted()
  await turn(signal)
  try {
    signal.throwIfAborted()
    return await work()
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
