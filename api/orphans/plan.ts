/**
 * What becomes of a folder. `row`: a row or an intent governs it. `young`: it has none, and something was written less than
 * a day ago. `held`: a legal hold may be about it. `kept`: a day of the audit log of which the database has no other object.
 * `orphan`: it can be deleted.
 */
export const FATES = ['row', 'young', 'held', 'kept', 'orphan'] as const
export type Fate = (typeof FATES)[number]

/** What is about to get its row is younger: no request and no command lasts so long. */
export const YOUNG_MS = 24 * 3600 * 1000

export interface Facts {
  hasRow: boolean
  /** When the newest of its objects was written, in milliseconds. */
  newestMs: number
  nowMs: number
  isHeld: boolean
  /** Whether nothing else has what it says. */
  isOnlyCopy: boolean
}

/** Pure. What is doubtful is no orphan. */
export function fateOf({ hasRow, newestMs, nowMs, isHeld, isOnlyCopy }: Facts): Fate {
  if (hasRow) return 'row'
  if (!(newestMs <= nowMs - YOUNG_MS)) return 'young'
  if (isHeld) return 'held'
  return isOnlyCopy ? 'kept' : 'orphan'
}

export interface Tally {
  folders: number
  objects: number
  bytes: number
}

export interface Survey {
  all: Record<Fate, Tally>
  /** Of media items alone: the measure of whether database and store belong together. */
  media: Record<Fate, Tally>
}

export interface Asked {
  /** A person has seen that more than half has no row. */
  most: boolean
  /** The store knows more of the audit log than the database. */
  isBehind: boolean
}

/**
 * Why nothing is deleted; undefined where it can be. A database that is empty, of another store, or restored to look
 * something up has no rows for what people have: then everything seems to be without one. Pure.
 */
export function refusalOf({ all, media }: Survey, { most, isBehind }: Asked): string | undefined {
  if (isBehind) {
    return (
      'The object store has anchors of a later audit log than that of this database: it is not the database of this store, ' +
      'or it was restored and its worker was not started since'
    )
  }
  for (const [counted, what] of [
    [media, 'media items'],
    [all, 'folders'],
  ] as const) {
    const { withRow, without } = sidesOf(counted)
    if (without > 0 && withRow === 0) {
      return `None of the ${without} ${what} in the object store has a row: this is not the database of this store`
    }
    if (without > withRow && !most) {
      return (
        `${without} of ${withRow + without} ${what} in the object store have no row: is this the database of this store? ` +
        'Look at what is listed without --delete; --most deletes it all the same'
      )
    }
  }
  return undefined
}

function sidesOf(counted: Record<Fate, Tally>): { withRow: number; without: number } {
  const total = FATES.reduce((sum, fate) => sum + counted[fate].folders, 0)
  const withRow = counted.row.folders
  return { withRow, without: total - withRow }
}
