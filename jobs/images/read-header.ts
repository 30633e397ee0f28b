import { open } from 'node:fs/promises'
import { inflateSync } from 'node:zlib'
import { sizeText } from '../../lib/contract/size.ts'
import { badInput, PermanentError } from '../runtime/failure.ts'
import { readGif } from './gif.ts'
import { type Bytes, corrupt, type ImageFormat, type ImageHeader, tooLarge } from './header.ts'
import { readHeif } from './heif.ts'
import { readJpeg } from './jpeg.ts'
import { readPng } from './png.ts'
import { sniff } from './sniff.ts'
import { readWebp } from './webp.ts'

export const IMAGE_LIMITS = {
  bytes: 512 * 1024 ** 2,
  pixels: 220_000_000,
  /** The API shows no larger number. */
  side: 65_536,
  /** What a decoder may hold at once. */
  memoryBytes: 512 * 1024 ** 2,
}

/** How much of a file is looked through. Files beyond that are converted, but not shown as they are. */
const LOOK_BYTES = 64 * 1024 ** 2
const MAX_PROFILE = 4 * 1024 ** 2
/** More does not fit into a JPEG. */
const MAX_EMBEDDED_PROFILE = 16 * 1024 ** 2

/** Reads what a file says of itself and refuses what no decoder shall see, before one does. */
export async function readHeader(path: string): Promise<ImageHeader> {
  const bytes = await beginning(path)
  if (bytes.size === 0) throw badInput('CorruptInput', 'The file is empty')
  if (bytes.size > IMAGE_LIMITS.bytes) throw tooLarge(`The image is larger than ${sizeText(IMAGE_LIMITS.bytes)}`)
  const format = sniff(bytes.head)
  if (!format) throw badInput('UnsupportedFormat', 'The file is not an image of a supported format')
  const header = withOwnBytes(withoutBomb(parse(format, bytes)))
  // The decoder comes next and needs the memory now, not after a later garbage collection.
  ;(bytes.head.buffer as ArrayBuffer).transfer(0)
  refuseAbsurd(header)
  return header
}

function withoutBomb(header: ImageHeader): ImageHeader {
  const size = header.profile?.length ?? 0
  if (size > MAX_EMBEDDED_PROFILE) throw tooLarge('The colour profile of the image is larger than 16 MiB')
  return header
}

/** Copies what is needed later, because a part of a buffer keeps all of it. */
const withOwnBytes = (header: ImageHeader): ImageHeader => ({
  ...header,
  exif: header.exif && Buffer.from(header.exif),
  xmp: header.xmp.map((xmp) => Buffer.from(xmp)),
  profile: header.profile && Buffer.from(header.profile),
})

async function beginning(path: string): Promise<Bytes> {
  const file = await open(path)
  try {
    const { size } = await file.stat()
    const head = Buffer.alloc(Math.min(size, LOOK_BYTES))
    const { bytesRead } = await file.read(head, 0, head.length, 0)
    return { head: head.subarray(0, bytesRead), size }
  } finally {
    await file.close()
  }
}

function parse(format: ImageFormat, bytes: Bytes): ImageHeader {
  try {
    if (format === 'jpeg') return readJpeg(bytes)
    if (format === 'png') return readPng(bytes, inflate)
    if (format === 'webp') return readWebp(bytes)
    if (format === 'gif') return readGif(bytes)
    return readHeif(bytes, format)
  } catch (error) {
    // A number that points past the end makes Buffer throw a RangeError.
    if (error instanceof PermanentError) throw error
    throw corrupt()
  }
}

function inflate(data: Buffer): Buffer | null {
  try {
    return inflateSync(data, { maxOutputLength: MAX_PROFILE })
  } catch {
    return null
  }
}

function refuseAbsurd({ width, height, memoryBytes }: ImageHeader): void {
  if (width < 1 || height < 1) throw corrupt('The image has no size')
  if (Math.max(width, height) > IMAGE_LIMITS.side) {
    throw tooLarge(`The image is ${width} x ${height}; at most 65,536 pixels a side are supported`)
  }
  if (width * height > IMAGE_LIMITS.pixels) {
    throw tooLarge(`The image is ${width} x ${height}; at most 220 megapixels are supported`)
  }
  if (memoryBytes > IMAGE_LIMITS.memoryBytes) {
    throw tooLarge(`The image is ${width} x ${height} and of a kind that needs too much memory to read`)
  }
}
