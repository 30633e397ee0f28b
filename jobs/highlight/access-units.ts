import {
  isRandomAccess,
  isUnitStart,
  PACKET,
  payloadStart,
  pesHeader,
  pidOf,
  STREAM_PID,
  tsPackets,
} from '../hls/ts-packets.ts'
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
      if (isUnitStart(bytes, at)) {
        if (unit.length() > 0) yield unpack(unit.take(), isKeyframe)
        isKeyframe = isRandomAccess(bytes, at)
      }
      unit.add(bytes, payloadStart(bytes, at), at + PACKET)
    }
  }
  if (unit.length() > 0) yield unpack(unit.take(), isKeyframe)
}

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

function unpack(bytes: Buffer, isKeyframe: boolean): Packetized {
  const { pts, payload } = pesHeader(bytes)
  return { pts, isKeyframe, data: bytes.subarray(payload) }
}
