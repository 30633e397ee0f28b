/** Seconds to wait after the n-th failure in a row: 1, 2, 4 … up to five minutes, with jitter against bursts. */
export function backoffSeconds(attempts: number, random: number = Math.random()): number {
  const seconds = Math.min(300, 2 ** Math.min(attempts - 1, 9))
  return seconds * (0.8 + 0.2 * random)
}

/** Rejects when `work` takes longer than `ms` milliseconds. The work itself continues, so it must be safe to repeat. */
export async function within<T>(ms: number, what: string, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
