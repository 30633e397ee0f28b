/** Frames of an item, from `from` on. */
interface Range {
  from: number
  frames: number
}

/** A part that was decoded from `decodedFrom` on, which is at or before its first frame. */
interface DecodedRange extends Range {
  decodedFrom: number
}

/** The damage that was found in each item, which may be decoded in several pieces. */
export interface DamageTally {
  /**
   * Notes how many damaged frames were decoded for a part of an item, and returns those in all its parts so far. Parts
   * are noted in the order of the item.
   */
  note(item: string, part: DecodedRange, damaged: number): number
}

export function openDamageTally(): DamageTally {
  const items = new Map<string, (Range & { damaged: number })[]>()
  return {
    note(item, { from, frames, decodedFrom }, damaged) {
      // A part that is decoded again, or divided otherwise, is counted once.
      const others = (items.get(item) ?? []).filter((other) => !overlap(other, { from, frames }))
      // ffmpeg does not say where the damage is. What lies before the part was found in the part before it too, and only
      // that is subtracted: otherwise an end that is wholly damaged would pass. A part that reaches farther back can hide
      // as many frames as it has itself, which are few where they were tolerated.
      const before = others.filter((other) => overlap(other, { from: decodedFrom, frames: from - decodedFrom }))
      const all = [...others, { from, frames, damaged: Math.max(0, damaged - sum(before)) }]
      items.set(item, all)
      return sum(all)
    },
  }
}

const overlap = (a: Range, b: Range) => a.from < b.from + b.frames && b.from < a.from + a.frames

const sum = (parts: readonly { damaged: number }[]) => parts.reduce((total, { damaged }) => total + damaged, 0)
