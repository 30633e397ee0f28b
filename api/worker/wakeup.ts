/** Lets a loop sleep until it is woken. A `wake()` while the loop is not waiting ends its next wait at once. */
export interface Wakeup {
  wake(): void
  /** Resolves when woken, or after `ms` milliseconds. */
  wait(ms: number): Promise<void>
}

export function makeWakeup(): Wakeup {
  let isDue = false
  let resume: (() => void) | undefined
  return {
    wake() {
      isDue = true
      resume?.()
    },
    async wait(ms) {
      if (!isDue) {
        let timer: NodeJS.Timeout | undefined
        await new Promise<void>((resolve) => {
          resume = resolve
          timer = setTimeout(resolve, ms)
        })
        clearTimeout(timer)
        resume = undefined
      }
      isDue = false
    },
  }
}
