import type { Readable } from 'node:stream'

export interface ObjectInfo {
  key: string
  size: number
  /** Quoted, as in HTTP. Changes whenever the bytes change. */
  etag: string
  contentType: string
  lastModified: Date
  /** As the server names it; unset for a store without classes. */
  storageClass?: string
}

export type ListedObject = Omit<ObjectInfo, 'contentType'>

/**
 * Called for each buffer of a streamed body once the store will not read it again, so that the caller may reuse its
 * memory. This is not an acknowledgement. For a body that fails, some buffers may never be released.
 */
export type Release = (chunk: Buffer) => void

export interface PutOptions {
  contentType: string
  /** When given, a body of another length is refused and nothing is stored. */
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
  /** Length of the body in bytes; a shorter or longer body is refused and leaves no part. */
  size: number
  /** base64 MD5 (RFC 1864); the store throws StoreError('BadDigest') for another digest. */
  contentMd5?: string
  signal?: AbortSignal
  release?: Release
}

export interface CopyOptions {
  signal?: AbortSignal
  /**
   * Awaited before each part of the work with the bytes of that part, so that it can tell of progress, renew a lease and
   * wait for its turn. What it throws ends the work and reaches the caller unchanged.
   */
  onPart?(bytes: number): Promise<void>
}

/**
 * Why a store refused. `NotFound`: no such object or upload. `InvalidPart`: complete named a part or etag that does not
 * exist. `BadDigest`, `IncompleteBody`, `EntityTooSmall` as in S3. `Changed`: the object is not the one that was meant.
 * `Locked`: the bucket keeps the object, see `until`. `Unavailable`: retry later, and with fewer requests at a time where
 * the store asks for that (`isSlowDown`). `BadConfiguration`: an administrator must correct the store's settings first.
 */
export type StoreErrorCode =
  | 'NotFound'
  | 'InvalidPart'
  | 'BadDigest'
  | 'IncompleteBody'
  | 'EntityTooSmall'
  | 'Changed'
  | 'Locked'
  | 'Unavailable'
  | 'BadConfiguration'

interface StoreErrorOptions extends ErrorOptions {
  until?: Date | undefined
  isSlowDown?: boolean
}

export class StoreError extends Error {
  override readonly name = 'StoreError'
  readonly code: StoreErrorCode
  /** When the lock of an object ends, as far as the store says. */
  readonly until: Date | undefined
  readonly isSlowDown: boolean
  constructor(code: StoreErrorCode, message: string, options: StoreErrorOptions = {}) {
    super(message, options)
    this.code = code
    this.until = options.until
    this.isSlowDown = options.isSlowDown ?? false
  }
}

/**
 * The object store: one bucket, flat keys (`org/…/media/…/original`). A folder, S3 and the store proxy of
 * Jobs implement it; all pass `test/support/object-store-contract.ts`. No method holds a whole object in memory. Objects become visible atomically.
 * An error of a body is rethrown unchanged. A refused body is not destroyed, so that the HTTP request can still be
 * answered; only an abort destroys it. Every other failure is a StoreError.
 */
export interface ObjectStore {
  put(key: string, body: Readable | Buffer | string, options: PutOptions): Promise<ObjectInfo>
  /** Throws StoreError('NotFound'). `end` is inclusive, as in HTTP ranges; a range past the end yields no bytes. */
  get(
    key: string,
    range?: { start: number; end?: number },
    signal?: AbortSignal,
  ): Promise<{ info: ObjectInfo; body: Readable }>
  head(key: string): Promise<ObjectInfo | undefined>
  /** In key order, without content types, which S3 does not list. */
  list(prefix: string): AsyncIterable<ListedObject>
  /**
   * Succeeds also when the object does not exist. In a bucket with versions this only adds a delete marker, also for an
   * object that is locked and for one that never was.
   */
  delete(key: string): Promise<void>
  /**
   * Deletes an object in a way that leaves nothing to pay for or to read, and looks that nothing is left: in a bucket with
   * versions all of them and their delete markers, and uploads to this key that were not completed, which could bring it
   * back. Throws Locked for what the bucket keeps. Succeeds also when the object does not exist.
   */
  deleteForGood(key: string): Promise<void>
  /**
   * Deletes everything below the prefix, which must end in `/`: objects, in a bucket with versions all of those and the
   * delete markers, and multipart uploads that were not completed. Returns how many it deleted, so that 0 means that
   * the prefix was empty.
   */
  deletePrefix(prefix: string): Promise<number>

  /**
   * Copies an object with its type, into the class of the new key's tier; a copy that exists is replaced. Not for jobs.
   * Throws NotFound; Changed for a source that is replaced meanwhile, where the server tells. Proves nothing but the size:
   * `moveToCold` compares the bytes. A copy may appear after the client that asked for it is gone.
   */
  copy(from: string, to: string, options?: CopyOptions): Promise<ObjectInfo>

  createMultipart(key: string, options: { contentType: string }): Promise<string>
  /** Streams one part. A part of the same number is replaced. */
  putPart(key: string, uploadId: string, partNumber: number, body: Readable, options: PutPartOptions): Promise<PartInfo>
  listParts(key: string, uploadId: string): Promise<PartInfo[]>
  /**
   * Every part but the last must have at least 5 MiB (EntityTooSmall). Name all parts in order: some servers require
   * all of them (InvalidPart). A second complete throws NotFound or (S3, for a while) succeeds again, so NotFound may mean
   * that the object is made: `completeUpload` looks.
   */
  completeMultipart(
    key: string,
    uploadId: string,
    parts: readonly Pick<PartInfo, 'partNumber' | 'etag'>[],
  ): Promise<ObjectInfo>
  /** Succeeds also when the upload no longer exists. */
  abortMultipart(key: string, uploadId: string): Promise<void>

  download(key: string, path: string, signal?: AbortSignal): Promise<ObjectInfo>
  upload(path: string, key: string, options: { contentType: string; signal?: AbortSignal }): Promise<ObjectInfo>

  /**
   * A short-lived URL that a client may GET directly; undefined for a store without its own HTTP server (a folder). The
   * answer has the given type, whatever type the object was stored with.
   */
  presignGet(key: string, seconds: number, contentType: string): Promise<string | undefined>
  /** Throws when the store cannot be reached or the bucket is missing. */
  check(): Promise<void>
  /** Throws BadConfiguration when nothing can be put into the cold tier because it is not there. */
  checkColdTier(): Promise<void>
  close(): Promise<void>
}

export const MIN_PART_BYTES = 5 * 1024 * 1024
