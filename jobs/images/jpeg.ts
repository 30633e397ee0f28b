import { type Bytes, blank, type ColorSpace, corrupt, type ImageHeader, tooLarge, truncated } from './header.ts'

const EXIF = 'Exif\0\0'
const XMP = 'http://ns.adobe.com/xap/1.0/\0'
const ICC = 'ICC_PROFILE\0'
const SPACES: Readonly<Record<number, ColorSpace>> = { 1: 'GRAY', 4: 'CMYK' }
const MAX_SEGMENTS = 4096
const MAX_STRAY_BYTES = 4096
/** Encoders write about ten. The decoder works through the whole picture for each of them. */
const MAX_SCANS = 100

interface Frame {
  width: number
  height: number
  components: number
  isProgressive: boolean
  /** Samples of all components together. */
  samples: number
}

interface Found {
  frame?: Frame
  exif: Buffer | null
  xmp: Buffer[]
  profile: Buffer[]
  isPlain: boolean
}

/** Reads the segments of a JPEG (ITU-T T.81 annex B) up to the first scan, and looks for its end. Pure. */
export function readJpeg({ head, size }: Bytes): ImageHeader {
  const found: Found = { exif: null, xmp: [], profile: [], isPlain: true }
  const scan = readSegments(head, found)
  const { frame } = found
  if (!frame) throw corrupt()
  // A second scan makes the decoder keep the coefficients of the whole picture, two bytes each.
  const isBuffered = frame.isProgressive || head[scan + 4] !== frame.components
  const end = endOfImage(head, scan, found)
  if (end === undefined && head.length === size) throw truncated()
  // Decoders paint what is missing grey. Each block of 64 samples has two codes of at least one bit.
  const isEmpty = !frame.isProgressive && end !== undefined && (end - scan) * 8 < (2 * frame.samples) / 64
  if (isEmpty) throw corrupt('The image is much larger than its data')
  return {
    ...blank,
    format: 'jpeg',
    width: frame.width,
    height: frame.height,
    memoryBytes: isBuffered ? frame.samples * 2 : 0,
    exif: found.exif,
    xmp: found.xmp,
    profile: found.profile.length > 0 ? Buffer.concat(found.profile) : null,
    space: SPACES[frame.components] ?? 'RGB ',
    isPlain: found.isPlain && end === size,
  }
}

/** Returns where the first scan begins. */
function readSegments(head: Buffer, found: Found): number {
  let at = 2
  for (let n = 0; n < MAX_SEGMENTS; n++) {
    const begin = markerFrom(head, at)
    if (begin !== at) found.isPlain &&= isFill(head.subarray(at, begin))
    at = begin
    const { marker, end } = segmentAt(head, at)
    if (marker === 0xda) return at
    readSegment(marker, head.subarray(at + 4, end), found)
    at = end
  }
  throw corrupt('The image has too many segments')
}

/** Decoders skip stray bytes between segments, which some cameras and editors leave there. */
function markerFrom(head: Buffer, from: number): number {
  const isMarker = (at: number) => head[at] === 0xff && (head[at + 1] ?? 0) >= 0xc0 && head[at + 1] !== 0xff
  for (let at = from; at <= from + MAX_STRAY_BYTES; at++) if (isMarker(at)) return at
  return from
}

/** Any number of them may precede a marker. */
const isFill = (bytes: Buffer) => bytes.every((byte) => byte === 0xff)

function segmentAt(head: Buffer, at: number): { marker: number; end: number } {
  if (at + 4 > head.length) throw truncated()
  const marker = head[at + 1] ?? 0
  if (head[at] !== 0xff || marker < 0xc0) throw corrupt()
  if (marker === 0xd9) throw truncated()
  const length = head.readUInt16BE(at + 2)
  if (length < 2) throw corrupt()
  if (at + 2 + length > head.length) throw truncated()
  return { marker, end: at + 2 + length }
}

function readSegment(marker: number, data: Buffer, found: Found): void {
  const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)
  if (isFrame) found.frame ??= frameOf(marker, data)
  else if (marker >= 0xe0 && marker <= 0xef) readApplication(marker - 0xe0, data, found)
  else if (marker === 0xfe) found.isPlain = false
}

function frameOf(marker: number, data: Buffer): Frame {
  const components = data[5] ?? 0
  if (data.length < 6 + 3 * components || components === 0) throw corrupt()
  const [height, width] = [data.readUInt16BE(1), data.readUInt16BE(3)]
  const factors = Array.from({ length: components }, (_, i) => data[7 + 3 * i] ?? 0x11)
  const across = Math.max(...factors.map((f) => f >> 4), 1)
  const down = Math.max(...factors.map((f) => f & 15), 1)
  const share = factors.reduce((sum, f) => sum + ((f >> 4) * (f & 15)) / (across * down), 0)
  return {
    width,
    height,
    components,
    isProgressive: [0xc2, 0xc6, 0xca, 0xce].includes(marker),
    samples: width * height * share,
  }
}

function readApplication(n: number, data: Buffer, found: Found): void {
  const begins = (text: string) => data.subarray(0, text.length).toString('latin1') === text
  if (n === 1 && begins(EXIF) && !found.exif) found.exif = data.subarray(EXIF.length)
  else if (n === 1 && begins(XMP)) found.xmp.push(data.subarray(XMP.length))
  else if (n === 2 && begins(ICC)) found.profile.push(data.subarray(ICC.length + 2))
  else if (!(n === 0 && (begins('JFIF\0') || begins('JFXX\0'))) && !(n === 14 && begins('Adobe'))) found.isPlain = false
}

/** Where the end marker ends. Entropy-coded data holds 0xff only before 0 and restart markers. */
function endOfImage(head: Buffer, scan: number, found: Found): number | undefined {
  let scans = 0
  let at = scan
  while (at !== -1 && at + 1 < head.length) {
    const marker = head[at + 1] ?? 0
    if (marker === 0xd9) return at + 2
    if (marker === 0xda && ++scans > MAX_SCANS) throw tooLarge('The image consists of too many scans')
    // Between scans only tables are expected.
    if (marker >= 0xe0 && marker <= 0xfe) found.isPlain = false
    at = head.indexOf(0xff, at + stepAt(head, at))
  }
  return undefined
}

/** How far the marker at a place reaches. */
function stepAt(head: Buffer, at: number): number {
  const marker = head[at + 1] ?? 0
  if (marker === 0xff) return 1
  const hasLength = marker >= 0xc0 && !(marker >= 0xd0 && marker <= 0xd8)
  return hasLength && at + 4 <= head.length ? 2 + head.readUInt16BE(at + 2) : 2
}
