import { StoreError } from './object-store.ts'

const SEGMENT = /^[A-Za-z0-9._=@+-]{1,200}$/
const MAX_KEY = 1024

const isSegment = (s: string) => SEGMENT.test(s) && s !== '.' && s !== '..'

/** True for keys that every store accepts: slash-separated plain names, no way up, no empty segment. */
export const isObjectKey = (key: string) => key.length <= MAX_KEY && key.split('/').every(isSegment)

/** Keys are made by our own code of ids, so a bad one is a bug and not bad input. */
export function checkKey(key: string): void {
  if (!isObjectKey(key)) throw new TypeError(`Not an object key: ${JSON.stringify(key.slice(0, 100))}`)
}

/** The start of a key, perhaps empty, perhaps cut inside a segment. */
export function checkPrefix(prefix: string): void {
  if (prefix !== '' && !isObjectKey(`${prefix}x`)) {
    throw new TypeError(`Not the start of an object key: ${JSON.stringify(prefix.slice(0, 100))}`)
  }
}

/** A prefix to delete below: it must be a whole "folder", so that `org/1` never takes `org/10` along. */
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

/** S3 wants parts in order; Ceph would sort them silently. */
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
