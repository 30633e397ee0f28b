import { open } from 'node:fs/promises'

/** The packets of an MPEG transport stream (ISO/IEC 13818-1 §2.4.3) with one elementary stream, as ffmpeg's muxer makes it. */

export const PACKET = 188
/** The PID that ffmpeg's muxer gives the first elementary stream; each file has exactly one. */
export const STREAM_PID = 0x100

/** What a segment holds is not what a player could play. */
export class SegmentFault extends Error {}

/** Whole packets, many at a time. Each buffer is overwritten by the next. Throws where the file ends within a packet. */
export async function* tsPackets(path: string): AsyncGenerator<Buffer> {
  const file = await open(path)
  try {
    const bytes = Buffer.allocUnsafe(PACKET * 1024)
    let rest = 0
    for (;;) {
      const { bytesRead } = await file.read(bytes, rest, bytes.length - rest)
      if (bytesRead === 0) break
      const end = rest + bytesRead
      const whole = end - (end % PACKET)
      yield bytes.subarray(0, whole)
      bytes.copyWithin(0, whole, end)
      rest = end - whole
    }
    if (rest > 0) throw new SegmentFault('half a packet at the end')
  } finally {
    await file.close()
  }
}

/** Of the packet at `at`. */
export function pidOf(bytes: Buffer, at: number): number {
  if (bytes[at] !== 0x47) throw new SegmentFault('not a transport stream')
  return bytes.readUInt16BE(at + 1) & 0x1fff
}

/** Whether a unit of the payload begins with the packet at `at`: a PES packet or a section of a table. */
export const isUnitStart = (bytes: Buffer, at: number): boolean => (bytes.readUInt8(at + 1) & 0x40) !== 0

/** The length of the adaptation field of the packet at `at`, with the byte that says so. */
export const adaptationOf = (bytes: Buffer, at: number): number =>
  (bytes.readUInt8(at + 3) & 0x20) !== 0 ? 1 + bytes.readUInt8(at + 4) : 0

/** Whether the packet at `at` says that a decoder can start with it. */
export const isRandomAccess = (bytes: Buffer, at: number): boolean =>
  adaptationOf(bytes, at) > 1 && (bytes.readUInt8(at + 5) & 0x40) !== 0

/** Where the payload of the packet at `at` begins; at most at its end. */
export const payloadStart = (bytes: Buffer, at: number): number =>
  Math.min(at + 4 + adaptationOf(bytes, at), at + PACKET)

/**
 * The header of a PES packet (§2.4.3.6): when its picture is shown and when it is decoded, in ticks of 90 kHz, and where its
 * payload begins. Both are one where it has only the first: then no picture overtakes another.
 */
export function pesHeader(bytes: Buffer): { pts: number; dts: number; payload: number } {
  if (bytes.length < 14 || bytes.readUIntBE(0, 3) !== 1) throw new SegmentFault('a packet without a time stamp')
  const flags = bytes.readUInt8(7) & 0xc0
  const isBoth = flags === 0xc0
  if (flags < 0x80 || (isBoth && bytes.length < 19)) throw new SegmentFault('a packet without a time stamp')
  const pts = stampAt(bytes, 9)
  return { pts, dts: isBoth ? stampAt(bytes, 14) : pts, payload: 9 + bytes.readUInt8(8) }
}

const stampAt = (bytes: Buffer, at: number): number =>
  (bytes.readUInt8(at) & 0x0e) * 2 ** 29 +
  (bytes.readUInt16BE(at + 1) >> 1) * 2 ** 15 +
  (bytes.readUInt16BE(at + 3) >> 1)

/** The checksum of tables (§2.4.4): polynomial 0x04c11db7, not reflected, without a final inversion; 0 with its own value. */
export function crc32(bytes: Buffer): number {
  let crc = 0xffffffff
  for (const byte of bytes) {
    crc ^= byte << 24
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x80000000 ? (crc << 1) ^ 0x04c11db7 : crc << 1
  }
  return crc >>> 0
}
