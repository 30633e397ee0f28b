/** What can be held a limited number of times at once. */
export interface Slots {
  /** What gives the slot back, which may be called again without effect; undefined when all are taken. */
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

/** The same for each key. Remembers only keys of which a slot is taken. */
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
