import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Looks again and again until there is something true, and answers with it; a test that waits in vain says for what.
 * Patient: what takes a second on an idle machine takes many on one that others use too, and waiting costs a test that
 * passes nothing.
 */
export async function eventually<T>(
  what: string,
  look: () => T | Promise<T>,
  ms = 120_000,
  pauseMs = 5,
): Promise<NonNullable<T>> {
  for (const end = performance.now() + ms; ; await sleep(pauseMs)) {
    const found = await look()
    if (found) return found as NonNullable<T>
    if (performance.now() > end) throw new Error(`Waited in vain: ${what}`)
  }
}
