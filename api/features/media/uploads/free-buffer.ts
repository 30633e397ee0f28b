/**
 * Frees the memory of a buffer at once; the buffer is empty afterwards. Node copies every piece of a request's body, at
 * most 64 KiB, into separate memory, and about 64 MiB of such garbage accumulate before the collector runs: that
 * garbage, and not the bytes in flight, would be the memory cost of uploads. Call this only for a buffer that no other
 * code reads any more. A buffer that shares its memory (a view, Node's pool) stays unchanged.
 */
export function freeBuffer({ buffer, byteLength }: Buffer): void {
  const ownsItsMemory = byteLength > 0 && buffer.byteLength === byteLength
  if (ownsItsMemory && buffer instanceof ArrayBuffer) buffer.transfer(0)
}
