import { setTimeout as sleep } from 'node:timers/promises'

/** Looks again and again until there is something true, and answers with it; a test that waits in vain says for what. */
export async function eventually<T>(
  what: string,
  look: () => T | Promise<T>,
  ms = 20_000,
  pauseMs = 5,
): Promise<NonNullable<T>> {
  for (const end = performance.now() + ms; ; await sleep(pauseMs)) {
    const found = await look()
    if (found) return found as NonNullable<T>
    if (performance.now() > end) throw new Error(`Waited in vain: ${what}`)
  }
}
