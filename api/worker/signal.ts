/** Lets a loop sleep until something happens. A call that comes while nobody waits is not lost. */
export interface Wakeup {
  wake(): void
  /** Resolves when woken, or after `ms`. */
  wait(ms: number): Promise<void>
}

export function wakeup(): Wakeup {
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
