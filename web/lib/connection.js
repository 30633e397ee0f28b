import { useEffect, useState } from './html.js'

/** Whether the platform can be reached: what the last request found, and what the browser says about its network. */
let isUp = navigator.onLine ?? true
const listeners = new Set()

export const isOnline = () => isUp

export function setOnline(value) {
  if (value === isUp) return
  isUp = value
  if (!isUp) void ask()
  for (const tell of [...listeners]) tell(isUp)
}

const AGAIN_MS = 2500
const ANSWER_MS = 10_000
/** A request that was lost may have been the only one: it is found out whether the next one would be. */
async function ask() {
  while (!isUp) {
    const signal = AbortSignal.timeout(ANSWER_MS)
    const response = await fetch('/icon.svg', { method: 'HEAD', cache: 'no-store', signal }).catch(() => undefined)
    if (response) return setOnline(true)
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
  }
}

/** Calls `tell(isOnline)` at every change. Returns the function that ends that. */
export function onConnection(tell) {
  listeners.add(tell)
  return () => listeners.delete(tell)
}

/** Resolves when the platform can be reached again. Rejects when `signal` is aborted. */
export function untilOnline(signal) {
  if (isUp) return Promise.resolve()
  return new Promise((resolve, reject) => {
    const end = onConnection(() => {
      end()
      resolve()
    })
    signal?.addEventListener(
      'abort',
      () => {
        end()
        reject(signal.reason)
      },
      { once: true },
    )
  })
}

export function useOnline() {
  const [value, set] = useState(isUp)
  useEffect(() => onConnection(set), [])
  return value
}

globalThis.addEventListener?.('offline', () => setOnline(false))
