import type { ChunkStates } from './protocol.ts'

export interface Chooser {
  /** Claims carry it. */
  me: string
  chunks: number
  /** Where this pod begins to look: each begins elsewhere, so that two seldom want the same chunk. */
  start: number
  /** Whether the chunk's claimant has had all the time it may need. */
  isOverdue(chunk: number): boolean
}

/** The next chunk for this pod; undefined while there is none that it should make. Pure. */
export function chooseChunk(
  { claims, done }: ChunkStates,
  { me, chunks, start, isOverdue }: Chooser,
): number | undefined {
  const open = Array.from({ length: chunks }, (_, i) => (start + i) % chunks).filter((chunk) => !done.has(chunk))
  return (
    // Begun before this pod was replaced.
    open.find((chunk) => claims.get(chunk) === me) ?? open.find((chunk) => !claims.has(chunk)) ?? open.find(isOverdue)
  )
}

/** Where a pod begins to look; the one that leads has place 0. Pure. */
export const startOf = (place: number, pods: number, chunks: number): number =>
  Math.floor((place * chunks) / Math.max(2, pods)) % chunks
