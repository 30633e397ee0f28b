import { createHash, type Hash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { type Release, StoreError } from './object-store.ts'

/** Only the user of the process may read stored objects. */
export const FILE_MODE = 0o600
export const FOLDER_MODE = 0o700

/** The metadata at the end of a stored file. */
export interface Seal {
  etag: string
  contentType: string
  /** Bytes of the content, without the seal. */
  size: number
}

export interface SealOptions {
  contentType: string
  size?: number | undefined
  contentMd5?: string | undefined
  signal?: AbortSignal | undefined
  release?: Release | undefined
  /** Replaces the MD5 of the content. */
  etag?: string
}

/**
 * The last 1024 bytes of an object's file hold its content type and etag: two files could not be replaced atomically,
 * and Node has no API for extended attributes. The content starts at 0, so that ranges are plain reads.
 */
const SEAL_BYTES = 1024
const MAGIC = 'keepsake-object/1 '

export type Body = Readable | Buffer | string | AsyncIterable<Buffer>

/** Streams the body into a new file, appends the seal and syncs the file. Rethrows errors of the body. */
export async function writeSealed(path: string, body: Body, options: SealOptions): Promise<Seal> {
  const handle = await disk(open(path, 'wx', FILE_MODE))
  try {
    const hash = options.etag === undefined ? createHash('md5') : undefined
    const size = await copyBody(handle, body, hash, options)
    if (options.size !== undefined && size !== options.size) throw wrongLength(options.size, size)
    const digest = hash?.digest()
    if (digest && options.contentMd5 !== undefined && digest.toString('base64') !== options.contentMd5) {
      throw new StoreError('BadDigest', 'The Content-MD5 given is not that of the body')
    }
    const seal: Seal = {
      etag: options.etag ?? `"${digest?.toString('hex')}"`,
      contentType: options.contentType,
      size,
    }
    await disk(writeAll(handle, Buffer.from(`${MAGIC}${JSON.stringify(seal)}`.padEnd(SEAL_BYTES - 1).concat('\n'))))
    await disk(handle.sync())
    return seal
  } finally {
    await handle.close()
  }
}

async function copyBody(handle: FileHandle, body: Body, hash: Hash | undefined, options: SealOptions): Promise<number> {
  const { signal, size = Number.POSITIVE_INFINITY } = options
  const release = body instanceof Readable ? options.release : undefined
  let written = 0
  const stop = () => body instanceof Readable && body.destroy(abortReason(signal))
  signal?.throwIfAborted()
  signal?.addEventListener('abort', stop, { once: true })
  try {
    for await (const chunk of chunksOf(body)) {
      signal?.throwIfAborted()
      written += chunk.length
      // Stop reading: a sender that exceeds the announced size may never end.
      if (written > size) throw wrongLength(size, written)
      hash?.update(chunk)
      await disk(writeAll(handle, chunk))
      release?.(chunk)
    }
  } catch (error) {
    signal?.throwIfAborted()
    throw error
  } finally {
    signal?.removeEventListener('abort', stop)
  }
  signal?.throwIfAborted()
  return written
}

const abortReason = (signal: AbortSignal | undefined) =>
  signal?.reason instanceof Error ? signal.reason : new Error('Aborted')

async function* chunksOf(body: Body): AsyncIterable<Buffer> {
  if (typeof body === 'string' || Buffer.isBuffer(body)) yield Buffer.from(body)
  else {
    // Do not destroy a refused body: destroying an HTTP request would close the connection before the answer.
    const chunks = body instanceof Readable ? body.iterator({ destroyOnReturn: false }) : body
    for await (const chunk of chunks) yield Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk)
  }
}

async function writeAll(handle: FileHandle, data: Buffer): Promise<void> {
  let done = 0
  while (done < data.length) done += (await handle.write(data, done)).bytesWritten
}

/** Reads the seal of an open file. */
export async function readSeal(handle: FileHandle): Promise<Seal & { lastModified: Date }> {
  const { size, mtime } = await handle.stat()
  const tail = Buffer.alloc(SEAL_BYTES)
  const { bytesRead } = await handle.read(tail, 0, SEAL_BYTES, Math.max(0, size - SEAL_BYTES))
  const text = tail.subarray(0, bytesRead).toString('latin1')
  if (!text.startsWith(MAGIC)) throw new StoreError('Unavailable', 'A stored file is damaged: it has no seal')
  const seal = JSON.parse(text.slice(MAGIC.length)) as Seal
  if (seal.size !== size - SEAL_BYTES) throw new StoreError('Unavailable', 'A stored file is damaged: wrong length')
  return { ...seal, lastModified: mtime }
}

/** The content of an open file as a stream that closes it; `end` is inclusive. */
export function readContent(
  handle: FileHandle,
  seal: Seal,
  range?: { start: number; end?: number },
): Promise<Readable> {
  const start = range?.start ?? 0
  const end = Math.min(range?.end ?? seal.size - 1, seal.size - 1)
  if (start <= end) return Promise.resolve(handle.createReadStream({ start, end, highWaterMark: 256 * 1024 }))
  return handle.close().then(() => Readable.from([]))
}

const wrongLength = (want: number, got: number) =>
  new StoreError('IncompleteBody', `The body should have ${want} bytes and has ${got > want ? 'more' : got}`)

/** Turns errors of the file system into `Unavailable`: a full or broken disk is not the caller's fault. */
export async function disk<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw asStoreError(error)
  }
}

const asStoreError = (error: unknown) =>
  error instanceof Error && 'syscall' in error && !(error instanceof StoreError)
    ? new StoreError('Unavailable', `The folder of the object store: ${error.message}`, { cause: error })
    : error

export const errnoOf = (error: unknown): string | undefined => {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : undefined
}
