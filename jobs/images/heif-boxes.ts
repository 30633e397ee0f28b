import { corrupt, truncated } from './header.ts'

/** A box of ISO/IEC 14496-12 §4.2: its type, its content, and where the content begins in the file. */
export interface Box {
  type: string
  data: Buffer
  at: number
}

const MAX_BOXES = 20_000

/** The boxes in `data`, which begins at `base` in the file. `size` is where the last one may end. Pure. */
export function boxesIn(data: Buffer, base = 0, size = data.length): Box[] {
  const boxes: Box[] = []
  let at = 0
  while (at + 8 <= data.length) {
    if (boxes.length >= MAX_BOXES) throw corrupt('The image has too many boxes')
    const { length, header } = extentOf(data, at, size)
    if (length < header) throw corrupt()
    if (at + length > size) throw truncated()
    const type = data.toString('latin1', at + 4, at + 8)
    boxes.push({ type, data: data.subarray(at + header, at + length), at: base + at + header })
    at += length
  }
  if (at < size && data.length === size) throw truncated()
  return boxes
}

function extentOf(data: Buffer, at: number, size: number): { length: number; header: number } {
  const length = data.readUInt32BE(at)
  if (length === 0) return { length: size - at, header: 8 }
  if (length !== 1) return { length, header: 8 }
  if (at + 16 > data.length) throw truncated()
  return { length: Number(data.readBigUInt64BE(at + 8)), header: 16 }
}

/** Reads big-endian numbers one after another. Throws `Truncated` past the end. */
export function cursor(data: Buffer) {
  let at = 0
  return {
    number(bytes: number): number {
      if (at + bytes > data.length) throw truncated()
      let value = 0
      for (let i = 0; i < bytes; i++) value = value * 256 + (data[at + i] ?? 0)
      at += bytes
      return value
    },
    text(bytes: number): string {
      if (at + bytes > data.length) throw truncated()
      at += bytes
      return data.toString('latin1', at - bytes, at)
    },
    rest: () => data.subarray(at),
  }
}
