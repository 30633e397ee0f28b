import { type Bytes, blank, corrupt, type ImageHeader, tooLarge, truncated } from './header.ts'

const PLAIN = new Set(['VP8 ', 'VP8L', 'VP8X', 'ALPH', 'ANIM', 'ANMF', 'ICCP', 'EXIF', 'XMP '])
/** The decoder's library looks at all earlier frames for each frame: 100,000 of them cost more than a minute. */
const MAX_CHUNKS = 10_000

interface Found {
  size: { width: number; height: number } | null
  exif: Buffer | null
  xmp: Buffer[]
  profile: Buffer | null
  frames: number
  isPlain: boolean
}

/** Reads the chunks of a WebP (RFC 9649). Pure. */
export function readWebp({ head, size }: Bytes): ImageHeader {
  if (head.length < 30) throw truncated()
  const end = 8 + head.readUInt32LE(4)
  if (end > size) throw truncated()
  const found: Found = { size: null, exif: null, xmp: [], profile: null, frames: 0, isPlain: true }
  let at = 12
  for (let n = 0; at + 8 <= Math.min(end, head.length); n++) {
    if (n >= MAX_CHUNKS) throw tooLarge('The image has too many frames')
    const length = head.readUInt32LE(at + 4)
    if (at + 8 + length > end) throw truncated()
    readChunk(head.toString('latin1', at, at + 4), head.subarray(at + 8, at + 8 + length), found)
    at += 8 + length + (length % 2)
  }
  if (!found.size) throw corrupt()
  return {
    ...blank,
    format: 'webp',
    ...found.size,
    isAnimated: found.frames > 1,
    // The decoder's picture and a copy of it, measured without loss and with transparency.
    memoryBytes: found.size.width * found.size.height * 12,
    mayBeTransparent: true,
    exif: found.exif,
    xmp: found.xmp,
    profile: found.profile,
    isPlain: found.isPlain && end === size && at >= end,
  }
}

function readChunk(type: string, data: Buffer, found: Found): void {
  if (type === 'EXIF' && !found.exif)
    found.exif = data.toString('latin1', 0, 6) === 'Exif\0\0' ? data.subarray(6) : data
  else if (type === 'XMP ') found.xmp.push(data)
  else if (type === 'ICCP') found.profile = data
  else if (type === 'ANMF') found.frames += 1
  else if (type === 'EXIF' || !PLAIN.has(type)) found.isPlain = false
  found.size ??= sizeOf(type, data)
}

function sizeOf(type: string, data: Buffer): Found['size'] {
  if (data.length < 10 && type !== 'VP8L') return null
  if (type === 'VP8X') return { width: data.readUIntLE(4, 3) + 1, height: data.readUIntLE(7, 3) + 1 }
  if (type === 'VP8 ') return { width: data.readUInt16LE(6) & 0x3fff, height: data.readUInt16LE(8) & 0x3fff }
  if (type !== 'VP8L' || data.length < 5) return null
  const bits = data.readUInt32LE(1)
  return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
}
