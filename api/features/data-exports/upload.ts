import { Readable } from 'node:stream'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import { completeUpload } from '../../../lib/runtime/object-store/complete.ts'
import { type ObjectStore, type PartInfo, StoreError } from '../../../lib/runtime/object-store/object-store.ts'
import { retrying } from '../../../lib/runtime/object-store/retry.ts'

/** A part of a multipart upload: two of them are in memory. */
const PIECE_BYTES = 16 * 1024 ** 2

const again = retrying({
  asStoreError: (error) => error,
  mayPass: (error) => error instanceof StoreError && error.code === 'Unavailable',
  pausesMs: [100, 400],
})

/** Buffers of `PIECE_BYTES` together, or of what is left. */
async function* piecesOf(body: AsyncIterable<Buffer>): AsyncIterable<Buffer[]> {
  let piece: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    let rest = chunk
    while (bytes + rest.length >= PIECE_BYTES) {
      const fits = PIECE_BYTES - bytes
      piece.push(rest.subarray(0, fits))
      yield piece
      piece = []
      bytes = 0
      rest = rest.subarray(fits)
    }
    if (rest.length > 0) piece.push(rest)
    bytes += rest.length
  }
  if (bytes > 0) yield piece
}

interface UploadOptions {
  contentType: string
  signal: AbortSignal
  /** So many bytes are in the store. */
  onSent?(bytes: number): void
}

/**
 * Stores a body of any length as one object, one piece under way while the next one is collected. After a failure, the
 * upload is aborted; that of a process that died is found below its prefix. Returns the length.
 */
export async function uploadInPieces(
  store: ObjectStore,
  key: string,
  body: AsyncIterable<Buffer>,
  { contentType, signal, onSent }: UploadOptions,
): Promise<number> {
  const uploadId = await store.createMultipart(key, { contentType })
  failpoint('export.upload-begun')
  const parts: PartInfo[] = []
  let sent = 0
  let underWay: Promise<PartInfo> | undefined
  const arrived = async () => {
    if (!underWay) return
    const part = await underWay
    underWay = undefined
    parts.push(part)
    sent += part.size
    onSent?.(sent)
    failpoint('export.piece-sent')
  }
  try {
    for await (const piece of piecesOf(body)) {
      await arrived()
      signal.throwIfAborted()
      underWay = sendPiece(store, { key, uploadId, number: parts.length + 1, piece, signal })
      // Awaited with the next piece: until then a rejection has no other handler.
      underWay.catch(() => {})
    }
    await arrived()
    signal.throwIfAborted()
    await completeUpload(store, { key, uploadId, parts, size: sent, again, signal })
    return sent
  } catch (error) {
    // No piece may arrive after the abort.
    await underWay?.catch(() => {})
    await store.abortMultipart(key, uploadId).catch(() => {})
    throw error
  }
}

interface Piece {
  key: string
  uploadId: string
  number: number
  piece: readonly Buffer[]
  signal: AbortSignal
}

async function sendPiece(store: ObjectStore, { key, uploadId, number, piece, signal }: Piece): Promise<PartInfo> {
  const size = piece.reduce((sum, { length }) => sum + length, 0)
  return again(() => store.putPart(key, uploadId, number, Readable.from(piece), { size, signal }), signal)
}
