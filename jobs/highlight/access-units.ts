import { createReadStream } from 'node:fs'
import { TICKS_PER_FRAME } from './ts-muxer.ts'

/** One coded picture, in decoding order. */
export interface AccessUnit {
  /** The frame of the piece that it shows. */
  frame: number
  /** A decoder can start here. */
  isKeyframe: boolean
  /** H.264 in Annex B format, parameter sets included. */
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
 * Reads a piece: an MPEG-TS file with one H.264 stream at the film's frame rate that begins with its first frame. Holds
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
  let payloads: Buffer[] = []
  let isKeyframe = false
  for await (const packet of tsPackets(path)) {
    if ((packet.readUInt16BE(1) & 0x1fff) !== STREAM_PID) continue
    const beginsUnit = (packet.readUInt8(1) & 0x40) !== 0
    const adaptation = (packet.readUInt8(3) & 0x20) !== 0 ? 1 + packet.readUInt8(4) : 0
    if (beginsUnit) {
      if (payloads.length > 0) yield unpack(payloads, isKeyframe)
      payloads = []
      isKeyframe = adaptation > 1 && (packet.readUInt8(5) & 0x40) !== 0
    }
    payloads.push(packet.subarray(4 + adaptation))
  }
  if (payloads.length > 0) yield unpack(payloads, isKeyframe)
}

async function* tsPackets(path: string): AsyncGenerator<Buffer> {
  let rest = Buffer.alloc(0)
  for await (const chunk of createReadStream(path, { highWaterMark: PACKET * 4096 })) {
    const bytes = Buffer.concat([rest, chunk as Buffer])
    const end = bytes.length - (bytes.length % PACKET)
    for (let at = 0; at < end; at += PACKET) {
      if (bytes[at] !== 0x47) throw new Error('not a transport stream')
      yield bytes.subarray(at, at + PACKET)
    }
    rest = bytes.subarray(end)
  }
  if (rest.length > 0) throw new Error('half a packet at the end')
}

/** The payload behind the header of a PES packet (ISO/IEC 13818-1 §2.4.3.6), and its presentation time. */
function unpack(payloads: readonly Buffer[], isKeyframe: boolean): Packetized {
  const bytes = Buffer.concat(payloads)
  if (bytes.length < 14 || bytes.readUIntBE(0, 3) !== 1 || (bytes.readUInt8(7) & 0x80) === 0) {
    throw new Error('a packet without a time stamp')
  }
  const pts =
    (bytes.readUInt8(9) & 0x0e) * 2 ** 29 + (bytes.readUInt16BE(10) >> 1) * 2 ** 15 + (bytes.readUInt16BE(12) >> 1)
  return { pts, isKeyframe, data: bytes.subarray(9 + bytes.readUInt8(8)) }
}
