import { type Chunk, firstPassChunks, type SharedCosts } from './layout.ts'
import type { ChunkStates } from './protocol.ts'

/** A video that is cut into chunks, of which those from `fullFrom` on hold the smallest rendition too. */
export interface Cut {
  chunks: readonly Chunk[]
  /** The number of chunks where the first pass makes all of that rendition. */
  fullFrom: number
  /** Of the whole video. */
  segments: number
  costs: SharedCosts
}

/**
 * Whether the first pass may end with so many segments: where all that follows is made, or where the pods that have come
 * carry the rest of the smallest rendition, this one has a chunk to make, and the list that players follow goes on at once.
 * Without helpers it goes on to the end. Pure.
 */
export function isFirstPassEnough(cut: Cut, { claims, done }: ChunkStates, me: string, covered: number): boolean {
  const { chunks, fullFrom } = cut
  const next = chunks.findLastIndex(({ firstSegment }) => firstSegment <= covered)
  if (next < fullFrom || !done.has(next)) return false
  const open = [...chunks.keys()].filter((chunk) => !done.has(chunk))
  if (open.every((chunk) => chunk < next)) return true
  const helpers = new Set([...claims.values()].filter((by) => by !== '' && by !== me))
  const isFree = (chunk: number) => (claims.get(chunk) ?? me) === me
  return open.some(isFree) && next >= firstPassChunks(chunks, cut.segments, 1 + helpers.size, cut.costs)
}
