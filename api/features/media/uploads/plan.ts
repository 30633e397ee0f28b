import { sizeText } from '../../../../lib/contract/size.ts'
import type { StateRefusal } from '../../../permissions/state.ts'

/** The minimum that S3 requires of every part but the last. */
const MIN_PART_BYTES = 5 * 1024 * 1024

export const UPLOAD_LIMITS = {
  singleBytes: 100 * 1024 * 1024,
  fileBytes: 10 * 1024 ** 3,
  imageBytes: 200 * 1024 * 1024,
  chunkBytes: 64 * 1024 * 1024,
  chunks: 10_000,
  /** For chunks too small for parts, because the merge copies all of them. */
  stagedBytes: 512 * 1024 * 1024,
  defaultChunkBytes: 8 * 1024 * 1024,
} as const

export interface ChunkPlan {
  fileBytes: number
  chunkBytes: number
  totalChunks: number
}
export interface Refusal {
  field: 'file_size_bytes' | 'chunk_size_bytes'
  issue: string
  /** The API refuses the file with any chunk size. */
  tooLarge: boolean
}

/**
 * Plans the chunks of a file. `multipart`: every chunk becomes a part of the final object at once. `staged`: chunks are
 * too small for parts, so they wait as objects until the merge.
 */
export function planUpload(o: {
  fileBytes: number
  chunkBytes: number
  mimeType: string
}): (ChunkPlan & { layout: 'multipart' | 'staged' }) | Refusal {
  const { fileBytes, chunkBytes } = o
  const refuse = (field: Refusal['field'], issue: string, tooLarge = false) => ({ field, issue, tooLarge })
  if (fileBytes > UPLOAD_LIMITS.fileBytes)
    return refuse('file_size_bytes', `must be at most ${sizeText(UPLOAD_LIMITS.fileBytes)}`, true)
  if (o.mimeType.startsWith('image/') && fileBytes > UPLOAD_LIMITS.imageBytes) {
    return refuse('file_size_bytes', `must be at most ${sizeText(UPLOAD_LIMITS.imageBytes)} for an image`, true)
  }
  const totalChunks = Math.ceil(fileBytes / chunkBytes)
  if (totalChunks > UPLOAD_LIMITS.chunks) {
    return refuse('chunk_size_bytes', `would make ${totalChunks} chunks; the maximum is ${UPLOAD_LIMITS.chunks}`)
  }
  const layout = totalChunks === 1 || chunkBytes >= MIN_PART_BYTES ? 'multipart' : 'staged'
  if (layout === 'staged' && fileBytes > UPLOAD_LIMITS.stagedBytes) {
    const [least, most] = [sizeText(MIN_PART_BYTES), sizeText(UPLOAD_LIMITS.stagedBytes)]
    return refuse('chunk_size_bytes', `must be at least ${least} for a file of more than ${most}`)
  }
  return { fileBytes, chunkBytes, totalChunks, layout }
}

/** All chunks have the same length but the last, which has the rest. */
export const lengthOfChunk = (plan: ChunkPlan, index: number) =>
  Math.min(plan.chunkBytes, plan.fileBytes - index * plan.chunkBytes)

/** `[0, 1, 2, 5]` → `[[0, 2], [5, 5]]`. The indexes must ascend. */
export function rangesOf(indexes: readonly number[]): [number, number][] {
  const ranges: [number, number][] = []
  for (const index of indexes) {
    const last = ranges.at(-1)
    if (last && last[1] === index - 1) last[1] = index
    else ranges.push([index, index])
  }
  return ranges
}

/** What has arrived, by the indexes of the chunks that are known, in ascending order. Those of a merged upload are forgotten. */
export function progressOf(
  { state, totalChunks }: Pick<MergeFacts, 'state' | 'totalChunks'>,
  indexes: readonly number[],
): { received: number; ranges: [number, number][] } {
  if (state === 'completed') return { received: totalChunks, ranges: [[0, totalChunks - 1]] }
  return { received: indexes.length, ranges: rangesOf(indexes) }
}

/** The first `limit` indexes that have not arrived. */
export function missingOf(totalChunks: number, received: ReadonlySet<number>, limit = 100): number[] {
  const missing: number[] = []
  for (let index = 0; index < totalChunks && missing.length < limit; index++) {
    if (!received.has(index)) missing.push(index)
  }
  return missing
}

export interface MergeFacts {
  state: 'open' | 'merging' | 'completed' | 'aborted' | 'expired'
  /** By the database's clock. */
  pastExpiry: boolean
  leaseExpired: boolean
  received: number
  totalChunks: number
  /** Why a merge aborted it. */
  refusal: Pick<StateRefusal, 'code' | 'message'> | null
}

type Session = Pick<MergeFacts, 'state' | 'pastExpiry'>

export const ENDED: StateRefusal = { code: 'UPLOAD_EXPIRED', message: 'The upload has ended. Start another one.' }

/** Why a session that is no longer open accepts no chunk, or cannot be aborted. */
export function refusalOf({ state }: Session): StateRefusal {
  if (state === 'merging') return { code: 'CONFLICT', message: 'The upload is being merged', retryAfter: 2 }
  if (state === 'completed') return { code: 'CONFLICT', message: 'The upload has been merged' }
  return ENDED
}

export const whileOpen = (upload: Session): StateRefusal | undefined =>
  upload.state === 'open' && !upload.pastExpiry ? undefined : refusalOf(upload)

/** What a request for the merge does. */
export type MergeMove = 'answer' | 'wait' | 'start' | 'take-over' | 'refuse-ended' | 'refuse-incomplete'

export function mergeMove(facts: MergeFacts): MergeMove {
  switch (facts.state) {
    case 'completed':
      return 'answer'
    case 'aborted':
    case 'expired':
      return 'refuse-ended'
    case 'merging':
      return facts.leaseExpired ? 'take-over' : 'wait'
    case 'open':
      if (facts.pastExpiry) return 'refuse-ended'
      return facts.received < facts.totalChunks ? 'refuse-incomplete' : 'start'
  }
}
