const MAX_NOTES = 10_000

/** What was notified when, as far as it matters to streams that are being opened. Bounded. */
export interface Notes {
  /** A moment, for `isSince`. */
  now(): number
  /** Without a name: anything may have been notified. */
  note(name?: string): void
  /** Whether this was, or may have been, notified after that moment. */
  isSince(name: string, moment: number): boolean
}

export function notes(max = MAX_NOTES): Notes {
  let moment = 0
  /** Anything may have been notified up to here. */
  let unknownUntil = 0
  // A Map keeps the order of insertion: the first entry is always the oldest.
  const last = new Map<string, number>()
  return {
    now: () => moment,
    note(name) {
      moment += 1
      if (name === undefined) {
        unknownUntil = moment
        last.clear()
        return
      }
      last.delete(name)
      last.set(name, moment)
      const [oldest] = last.size > max ? last : []
      if (!oldest) return
      last.delete(oldest[0])
      unknownUntil = oldest[1]
    },
    isSince: (name, since) => unknownUntil > since || (last.get(name) ?? 0) > since,
  }
}
