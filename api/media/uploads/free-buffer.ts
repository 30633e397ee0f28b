/**
 * Gives the memory of a buffer back at once; the buffer is empty afterwards. Node copies every piece of a request's body
 * into memory of its own, at most 64 KiB of it, and the collector lets some 64 MiB of such garbage lie before it looks:
 * that, and not what is in flight, is what uploads would cost. Only for a buffer that nobody else reads any more. One
 * that shares its memory with others (a view, Node's pool) is left alone.
 */
export function freeBuffer({ buffer, byteLength }: Buffer): void {
  const ownsItsMemory = byteLength > 0 && buffer.byteLength === byteLength
  if (ownsItsMemory && buffer instanceof ArrayBuffer) buffer.transfer(0)
}
