import { setTimeout as sleep } from 'node:timers/promises'

const PAUSE_MS = 10_000

/** For what package managers fetch: a server that is away for a moment fails no run of the tests. */
export async function threeTries<T>(attempt: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await attempt()
    } catch (error) {
      if (tries === 3) throw error
      console.error(`again in ${PAUSE_MS / 1000} s: ${(error as Error).message.trim().split('\n').at(-1)}`)
      await sleep(PAUSE_MS)
    }
  }
}
