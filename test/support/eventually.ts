import { setTimeout as sleep } from 'node:timers/promises'

/** Waits until `look` answers with something true, and answers with that. Throws when it takes too long. */
export async function eventually<T>(what: string, look: () => T | Promise<T>, ms = 5000): Promise<NonNullable<T>> {
  const end = performance.now() + ms
  for (;;) {
    const found = await look()
    if (found) return found as NonNullable<T>
    if (performance.now() > end) throw new Error(`Waited ${ms} ms in vain: ${what}`)
    await sleep(5)
  }
}
