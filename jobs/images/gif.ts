import { type Bytes, blank, corrupt, type ImageHeader, truncated } from './header.ts'

const MAX_BLOCKS = 1_000_000
/** Application extensions that control how the animation repeats. Others hold XMP, for example. */
const PLAIN = new Set(['NETSCAPE2.0', 'ANIMEXTS1.0'])

/** Reads the blocks of a GIF (GIF89a, appendix A). Pure. */
export function readGif({ head, size }: Bytes): ImageHeader {
  if (head.length < 13) throw truncated()
  const [width, height] = [head.readUInt16LE(6), head.readUInt16LE(8)]
  const { frames, end, isPlain } = readBlocks(head)
  if (end === undefined && head.length === size) throw truncated()
  if (frames === 0) throw corrupt('The image is empty')
  return {
    ...blank,
    format: 'gif',
    width,
    height,
    isAnimated: frames > 1,
    mayBeTransparent: true,
    memoryBytes: width * height * 8,
    isPlain: isPlain && end === size,
  }
}

function readBlocks(head: Buffer): { frames: number; end: number | undefined; isPlain: boolean } {
  let at = 13 + tableSize(head[10] ?? 0)
  let frames = 0
  let isPlain = true
  for (let n = 0; n < MAX_BLOCKS && at < head.length; n++) {
    const kind = head[at]
    if (kind === 0x3b) return { frames, end: at + 1, isPlain }
    if (kind === 0x2c) {
      frames += 1
      at = skipSubBlocks(head, at + 11 + tableSize(head[at + 9] ?? 0))
    } else if (kind === 0x21) {
      if (head[at + 1] === 0xff && !PLAIN.has(head.toString('latin1', at + 3, at + 14))) isPlain = false
      at = skipSubBlocks(head, at + 2)
    } else throw corrupt()
  }
  return { frames, end: undefined, isPlain }
}

const tableSize = (flags: number) => (flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0)

function skipSubBlocks(head: Buffer, from: number): number {
  let at = from
  while (at < head.length && head[at] !== 0) at += 1 + (head[at] ?? 0)
  return at + 1
}
