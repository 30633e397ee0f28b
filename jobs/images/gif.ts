import { type Bytes, blank, corrupt, type ImageHeader, tooLarge, truncated } from './header.ts'

const MAX_BLOCKS = 1_000_000
/** Each becomes an object. Encoders write one. */
const MAX_COMMENTS = 1000
/** Application extensions that control how the animation repeats. Others hold XMP, for example. */
const PLAIN = new Set(['NETSCAPE2.0', 'ANIMEXTS1.0'])

/** Reads the blocks of a GIF (GIF89a, appendix A). Pure. */
export function readGif({ head, size }: Bytes): ImageHeader {
  if (head.length < 13) throw truncated()
  const [width, height] = [head.readUInt16LE(6), head.readUInt16LE(8)]
  const { frames, end, isPlain, comments } = readBlocks(head)
  if (end === undefined && head.length === size) throw truncated()
  if (frames === 0) throw corrupt('The image is empty')
  return {
    ...blank,
    format: 'gif',
    width,
    height,
    isAnimated: frames > 1,
    mayBeTransparent: true,
    memoryBytes: width * height * 9.2,
    xmp: comments,
    isPlain: isPlain && end === size,
  }
}

const [EXTENSION, FRAME, END] = [0x21, 0x2c, 0x3b]
/** Some encoders end a frame twice. A longer gap is a part of the file that is missing, and the frame is not whole. */
const MAX_ZEROS = 16

interface Blocks {
  frames: number
  end: number | undefined
  isPlain: boolean
  comments: Buffer[]
}

function readBlocks(head: Buffer): Blocks {
  let at = 13 + tableSize(head[10] ?? 0)
  const found: Blocks = { frames: 0, end: undefined, isPlain: true, comments: [] }
  for (let n = 0; at < head.length; n++) {
    if (n >= MAX_BLOCKS) throw tooLarge('The image has too many frames')
    const kind = head[at]
    if (kind === END) return { ...found, end: at + 1 }
    if (kind === FRAME) at = readFrame(head, at, found)
    else if (kind === EXTENSION) at = readExtension(head, at, found)
    else if (kind === 0) at = skipZeros(head, at, found)
    // The first frame, of which the pictures are made, is whole where another one follows it.
    else if (found.frames > 1) return { ...found, end: at, isPlain: false }
    else throw corrupt()
  }
  return found
}

/** Returns where the next block begins. */
function readFrame(head: Buffer, at: number, found: Blocks): number {
  const data = at + 11 + tableSize(head[at + 9] ?? 0)
  if (head[data] === 0 && found.frames === 0) throw corrupt('The image lacks its pixels')
  if (head[data] !== 0) found.frames += 1
  return skipSubBlocks(head, data)
}

function readExtension(head: Buffer, at: number, found: Blocks): number {
  const next = skipSubBlocks(head, at + 2)
  if (head[at + 1] === 0xff && !PLAIN.has(head.toString('latin1', at + 3, at + 14))) found.isPlain = false
  if (head[at + 1] !== 0xfe) return next
  if (found.comments.length < MAX_COMMENTS) found.comments.push(head.subarray(at + 2, next))
  else found.isPlain = false
  return next
}

function skipZeros(head: Buffer, from: number, found: Blocks): number {
  let at = from
  while (head[at] === 0) at += 1
  if (found.frames === 0 || at - from > MAX_ZEROS) throw corrupt()
  found.isPlain = false
  return at
}

const tableSize = (flags: number) => (flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0)

function skipSubBlocks(head: Buffer, from: number): number {
  let at = from
  while (at < head.length && head[at] !== 0) at += 1 + (head[at] ?? 0)
  return at + 1
}
