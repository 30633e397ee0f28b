/** The part of a resource to send: both ends inclusive. */
export interface Span {
  start: number
  end: number
}

/**
 * Reads a Range header (RFC 9110 §14.2) for a resource of `size` bytes. `whole`: there is none, or one that a server
 * may ignore (several ranges, other units, invalid syntax). `unsatisfiable`: the range lies outside the resource.
 */
export function parseRange(header: string | undefined, size: number): Span | 'whole' | 'unsatisfiable' {
  const [, first, last] = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/i.exec(header ?? '') ?? []
  if (first === undefined || last === undefined || (first === '' && last === '')) return 'whole'
  if (first === '') return suffix(Number(last), size)
  const start = Number(first)
  if (last !== '' && Number(last) < start) return 'whole'
  if (start >= size) return 'unsatisfiable'
  return { start, end: last === '' ? size - 1 : Math.min(Number(last), size - 1) }
}

const suffix = (length: number, size: number): Span | 'unsatisfiable' =>
  length === 0 || size === 0 ? 'unsatisfiable' : { start: Math.max(0, size - length), end: size - 1 }

/** Whether If-Range permits the range: it must name this exact representation (strong comparison, or its date). */
export function mayUseRange(ifRange: string | undefined, etag: string, lastModified: Date): boolean {
  if (ifRange === undefined) return true
  const condition = ifRange.trim()
  if (condition.startsWith('"')) return condition === etag
  if (condition.startsWith('W/')) return false
  return condition === lastModified.toUTCString()
}
