import { StoreError } from './object-store.ts'

const SEGMENT = /^[A-Za-z0-9._=@+-]{1,200}$/
const MAX_KEY = 1024

const isSegment = (s: string) => SEGMENT.test(s) && s !== '.' && s !== '..'

/** True for keys that every store accepts: slash-separated plain names, no `..`, no empty segment. */
export const isObjectKey = (key: string) => key.length <= MAX_KEY && key.split('/').every(isSegment)

/** Throws a TypeError: the programs build keys from ids, so a bad key is a bug and not bad input. */
export function checkKey(key: string): void {
  if (!isObjectKey(key)) throw new TypeError(`Not an object key: ${JSON.stringify(key.slice(0, 100))}`)
}

/** Checks the start of a key, which may be empty or end inside a segment. */
export function checkPrefix(prefix: string): void {
  if (prefix !== '' && !isObjectKey(`${prefix}x`)) {
    throw new TypeError(`Not the start of an object key: ${JSON.stringify(prefix.slice(0, 100))}`)
  }
}

/** Checks a prefix to delete: it must be a whole "folder", so that `org/1` never deletes `org/10`. */
export function checkFolderPrefix(prefix: string): void {
  checkPrefix(prefix)
  if (!prefix.endsWith('/')) throw new TypeError('A prefix to delete must end in /')
}

const CONTENT_TYPE = /^[\x20-\x7e]{1,255}$/

export function checkContentType(contentType: string): void {
  if (!CONTENT_TYPE.test(contentType)) throw new TypeError('Not a content type')
}

export function checkPartNumber(n: number): void {
  if (!Number.isInteger(n) || n < 1 || n > 10_000) throw new TypeError(`Not a part number: ${n}`)
}

/** S3 requires parts in order; Ceph would silently sort them. */
export function checkPartOrder(parts: readonly { partNumber: number }[]): void {
  let last = 0
  for (const { partNumber } of parts) {
    checkPartNumber(partNumber)
    if (partNumber <= last) throw new StoreError('InvalidPart', `Part ${partNumber} is out of order`)
    last = partNumber
  }
  if (last === 0) throw new StoreError('InvalidPart', 'No parts were named')
}

export function checkRange(range: { start: number; end?: number } | undefined): void {
  if (!range) return
  const { start, end = start } = range
  if (!Number.isSafeInteger(start) || start < 0 || !Number.isSafeInteger(end) || end < start) {
    throw new RangeError(`Not a range: ${start}-${end}`)
  }
}
