import { setImmediate } from 'node:timers/promises'

/** Does something with each, and lets the event loop go on after every `size` of them. */
export async function inSlices<T>(all: readonly T[], size: number, act: (one: T) => void): Promise<void> {
  for (let from = 0; from < all.length; from += size) {
    if (from > 0) await setImmediate()
    for (const one of all.slice(from, from + size)) act(one)
  }
}
