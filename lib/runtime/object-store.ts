import type { Readable } from 'node:stream'

export interface ObjectInfo {
  key: string
  size: number
  /** Quoted, as HTTP wants it. Changes whenever the bytes do. */
  etag: string
  contentType: string
  lastModified: Date
}

export type ListedObject = Omit<ObjectInfo, 'contentType'>

/**
 * Told of each buffer of a streamed body once the store will not read it again, so that its memory may be used for
 * something else. That is no acknowledgement. Buffers of a body that fails may never be told of.
 */
export type Release = (chunk: Buffer) => void

export interface PutOptions {
  contentType: string
  /** When known, a body of another length is refused and nothing is stored. */
  size?: number
  signal?: AbortSignal
  release?: Release
}

export interface PartInfo {
  /** 1 to 10,000. */
  partNumber: number
  etag: string
  size: number
}

export interface PutPartOptions {
  /** Bytes the body will have; a shorter or longer one is refused and leaves no part. */
  size: number
  /** base64 MD5 (RFC 1864); a store that sees another digest throws StoreError('BadDigest'). */
  contentMd5?: string
  signal?: AbortSignal
  release?: Release
}

/**
 * Why a store refused. `NotFound`: no such object or upload. `InvalidPart`: complete named a part or etag that is not
 * there. `BadDigest`, `IncompleteBody`, `EntityTooSmall` as in S3. `Unavailable`: try again later.
 */
export type StoreErrorCode =
  | 'NotFound'
  | 'InvalidPart'
  | 'BadDigest'
  | 'IncompleteBody'
  | 'EntityTooSmall'
  | 'Unavailable'

export class StoreError extends Error {
  override readonly name = 'StoreError'
  readonly code: StoreErrorCode
  constructor(code: StoreErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/**
 * The object store: one bucket, flat keys (`org/…/media/…/original`). A folder and S3 implement it; both pass
 * `test/support/object-store-contract.ts`. No method ever holds a whole object in memory. An object becomes visible at
 * once and whole, or not at all. An error of a body is thrown as it is. A body that is refused is not destroyed, so that
 * an HTTP request can still be answered; only an abort destroys it. Every other failure is a StoreError.
 */
export interface ObjectStore {
  put(key: string, body: Readable | Buffer | string, options: PutOptions): Promise<ObjectInfo>
  /** Throws StoreError('NotFound'). `end` is inclusive, as in HTTP ranges; a range behind the end gives no bytes. */
  get(
    key: string,
    range?: { start: number; end?: number },
    signal?: AbortSignal,
  ): Promise<{ info: ObjectInfo; body: Readable }>
  head(key: string): Promise<ObjectInfo | undefined>
  /** In key order. Without the content type, which S3 does not list. */
  list(prefix: string): AsyncIterable<ListedObject>
  /** Deleting what is not there is success. */
  delete(key: string): Promise<void>
  /** Deletes everything below the prefix and returns how many objects that were. The prefix must end in `/`. */
  deletePrefix(prefix: string): Promise<number>

  createMultipart(key: string, options: { contentType: string }): Promise<string>
  /** Streams one part. The same number again replaces the earlier one. */
  putPart(key: string, uploadId: string, partNumber: number, body: Readable, options: PutPartOptions): Promise<PartInfo>
  listParts(key: string, uploadId: string): Promise<PartInfo[]>
  /**
   * Every part but the last must have at least 5 MiB (EntityTooSmall). Name all parts in order: some servers refuse to
   * leave one out (InvalidPart). Completing twice: NotFound the second time, or (S3, for a while) the same success.
   */
  completeMultipart(
    key: string,
    uploadId: string,
    parts: readonly Pick<PartInfo, 'partNumber' | 'etag'>[],
  ): Promise<ObjectInfo>
  /** Aborting what is gone is success. */
  abortMultipart(key: string, uploadId: string): Promise<void>

  download(key: string, path: string, signal?: AbortSignal): Promise<ObjectInfo>
  upload(path: string, key: string, options: { contentType: string; signal?: AbortSignal }): Promise<ObjectInfo>

  /** A short-lived URL that a client may GET directly; undefined where the store has no HTTP door of its own (a folder). */
  presignGet(key: string, seconds: number): Promise<string | undefined>
  /** Throws when the store cannot be reached or the bucket is missing. */
  check(): Promise<void>
  close(): Promise<void>
}

export const MIN_PART_BYTES = 5 * 1024 * 1024
