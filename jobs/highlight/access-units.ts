import { open } from 'node:fs/promises'
import { TICKS_PER_FRAME } from './ts-muxer.ts'

/** One coded picture, in decoding order. */
export interface AccessUnit {
  /** The frame of the piece that it shows. */
  frame: number
  /** A decoder can start here. */
  isKeyframe: boolean
  /** H.264 in Annex B format, parameter sets included. Valid until the next picture is read. */
  data: Buffer
}

interface Packetized {
  pts: number
  isKeyframe: boolean
  data: Buffer
}

const PACKET = 188
/** The PID that ffmpeg's muxer gives the only stream of a piece. */
const STREAM_PID = 0x100

/**
 * Reads a piece: an MPEG-TS file with one H.264 stream at the highlight's frame rate that begins with its first frame. Holds
 * one picture at a time. Throws when the file is not such a piece.
 */
export async function* readAccessUnits(path: string): AsyncGenerator<AccessUnit> {
  let first: number | undefined
  for await (const { pts, isKeyframe, data } of readPackets(path)) {
    first ??= pts
    const frame = (pts - first) / TICKS_PER_FRAME
    // ffmpeg rounds 1/30 s to whole ticks of 90 kHz exactly, so anything else is damage.
    if (!Number.isInteger(frame) || frame < 0) throw new Error(`a picture ${frame} frames after the first`)
    yield { frame, isKeyframe, data }
  }
}

/** Puts the payloads of a stream together, from one start of a PES packet to the next. */
async function* readPackets(path: string): AsyncGenerator<Packetized> {
  const unit = openCollector()
  let isKeyframe = false
  for await (const bytes of tsPackets(path)) {
    for (let at = 0; at < bytes.length; at += PACKET) {
      if (pidOf(bytes, at) !== STREAM_PID) continue
      const adaptation = adaptationOf(bytes, at)
      if ((bytes.readUInt8(at + 1) & 0x40) !== 0) {
        if (unit.length() > 0) yield unpack(unit.take(), isKeyframe)
        isKeyframe = adaptation > 1 && (bytes.readUInt8(at + 5) & 0x40) !== 0
      }
      unit.add(bytes, Math.min(at + 4 + adaptation, at + PACKET), at + PACKET)
    }
  }
  if (unit.length() > 0) yield unpack(unit.take(), isKeyframe)
}

/** Of the packet at `at`. */
function pidOf(bytes: Buffer, at: number): number {
  if (bytes[at] !== 0x47) throw new Error('not a transport stream')
  return bytes.readUInt16BE(at + 1) & 0x1fff
}

/** The length of the adaptation field of the packet at `at`, with the byte that says so. */
const adaptationOf = (bytes: Buffer, at: number) =>
  (bytes.readUInt8(at + 3) & 0x20) !== 0 ? 1 + bytes.readUInt8(at + 4) : 0

/** Copies bytes into one buffer that is used again: a view of each of the 5,000 packets in a second would be garbage. */
function openCollector() {
  let bytes = Buffer.allocUnsafe(PACKET * 1024)
  let length = 0
  return {
    length: () => length,
    add(from: Buffer, start: number, end: number): void {
      if (length + end - start > bytes.length) bytes = Buffer.concat([bytes], 2 * bytes.length)
      length += from.copy(bytes, length, start, end)
    },
    /** What was added. It is overwritten by what is added next. */
    take(): Buffer {
      const taken = bytes.subarray(0, length)
      length = 0
      return taken
    },
  }
}

/** Whole packets, many at a time. Each buffer is overwritten by the next. */
async function* tsPackets(path: string): AsyncGenerator<Buffer> {
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
    if (rest > 0) throw new Error('half a packet at the end')
  } finally {
    await file.close()
  }
}

/** The payload behind the header of a PES packet (ISO/IEC 13818-1 §2.4.3.6), and its presentation time. */
function unpack(bytes: Buffer, isKeyframe: boolean): Packetized {
  if (bytes.length < 14 || bytes.readUIntBE(0, 3) !== 1 || (bytes.readUInt8(7) & 0x80) === 0) {
    throw new Error('a packet without a time stamp')
  }
  const pts =
    (bytes.readUInt8(9) & 0x0e) * 2 ** 29 + (bytes.readUInt16BE(10) >> 1) * 2 ** 15 + (bytes.readUInt16BE(12) >> 1)
  return { pts, isKeyframe, data: bytes.subarray(9 + bytes.readUInt8(8)) }
}
