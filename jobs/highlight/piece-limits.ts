/** A folder of the store with objects of one piece, or what lies where one would be. */
export interface PieceFolder {
  /** The prefix of its objects; ends in a slash. */
  name: string
  /** When its newest object was written. */
  writtenAtMs: number
  bytes: number
  objects: number
}

interface Limits {
  /** Of the pieces of one source, in all scopes. */
  bytes: number
  nowMs: number
  /** The prefix of the piece that was just written, which stays. */
  newest: string
}

const MAX_PIECES = 500
const MAX_AGE_MS = 30 * 24 * 60 * 60 * 1000
/** A piece has at most nine, and twice as many while two versions of it are there. */
const MAX_OBJECTS = 18
/** Each costs requests, and the highlight waits for them; the next piece that is stored goes on. */
const MAX_REMOVED = 100

/**
 * The prefixes to delete, so that the pieces of a source stay within the limits: what cannot be a piece, pieces that are
 * too old, then those written first; at most 100 at once. Another scope with more pieces than a source may have is removed
 * as one prefix, as only a hostile job leaves so many. Pure.
 */
export function excessOf(folders: readonly PieceFolder[], { bytes, nowMs, newest }: Limits): string[] {
  const crowded = new Set(crowdedScopes(folders).filter((scope) => !newest.startsWith(scope)))
  const rest = folders.filter(({ name }) => !crowded.has(scopeOf(name)))
  const sound = (folder: PieceFolder) => folder.objects <= MAX_OBJECTS && nowMs - folder.writtenAtMs <= MAX_AGE_MS
  let left = sizeOf(rest)
  const removed: string[] = []
  const oldestFirst = rest.toSorted((a, b) => Number(sound(a)) - Number(sound(b)) || a.writtenAtMs - b.writtenAtMs)
  for (const folder of oldestFirst) {
    if (sound(folder) && left.bytes <= bytes && left.pieces <= MAX_PIECES) break
    // A folder above the newest piece holds it too.
    if (newest.startsWith(folder.name)) continue
    removed.push(folder.name)
    left = { bytes: left.bytes - folder.bytes, pieces: left.pieces - 1 }
  }
  return [...crowded, ...removed].slice(0, MAX_REMOVED)
}

/** The prefix, at most two folders below the given one, that counts as the piece of an object. Pure. */
export function folderBelow(prefix: string, key: string): string {
  const folders = key.slice(prefix.length).split('/').slice(0, -1)
  return (
    prefix +
    folders
      .slice(0, 2)
      .map((name) => `${name}/`)
      .join('')
  )
}

const sizeOf = (folders: readonly PieceFolder[]) => ({
  bytes: folders.reduce((sum, folder) => sum + folder.bytes, 0),
  pieces: folders.length,
})

const scopeOf = (name: string) => name.replace(/[^/]+\/$/, '')

function crowdedScopes(folders: readonly PieceFolder[]): string[] {
  const counts = new Map<string, number>()
  for (const { name } of folders) counts.set(scopeOf(name), (counts.get(scopeOf(name)) ?? 0) + 1)
  return [...counts].filter(([, count]) => count > MAX_PIECES).map(([scope]) => scope)
}
