/** A counting semaphore. */
export interface Slots {
  /** Returns a function that releases the slot (further calls have no effect); undefined if all slots are taken. */
  enter(): (() => void) | undefined
  taken(): number
}

export function openSlots(most: number): Slots {
  let taken = 0
  return {
    enter() {
      if (taken >= most) return undefined
      taken += 1
      let held = true
      return () => {
        if (held) taken -= 1
        held = false
      }
    },
    taken: () => taken,
  }
}

/** One semaphore per key. Stores only keys with a taken slot. */
export function openSlotsByKey(most: number): { enter(key: string): (() => void) | undefined; size(): number } {
  const all = new Map<string, Slots>()
  return {
    enter(key) {
      const slots = all.get(key) ?? openSlots(most)
      const leave = slots.enter()
      if (!leave) return undefined
      all.set(key, slots)
      return () => {
        leave()
        if (slots.taken() === 0) all.delete(key)
      }
    },
    size: () => all.size,
  }
}
