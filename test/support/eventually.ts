import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Looks again and again until there is something true, and answers with it; a test that waits in vain says for what.
 * Patient: what takes a second on an idle machine takes many on one that others use too, and waiting costs a test that
 * passes next to nothing: it looks every 5 ms at first, and then after each twentieth of the time that it has waited, at
 * least every 50 ms. Many looks read all processes, or ask a server. A state that does not last needs a `pauseMs`.
 */
export async function eventually<T>(
  what: string,
  look: () => T | Promise<T>,
  ms = 120_000,
  pauseMs?: number,
): Promise<NonNullable<T>> {
  const start = performance.now()
  for (;;) {
    const found = await look()
    if (found) return found as NonNullable<T>
    const waited = performance.now() - start
    if (waited > ms) throw new Error(`Waited in vain: ${what}`)
    await sleep(pauseMs ?? Math.min(50, Math.max(5, waited / 20)))
  }
}
