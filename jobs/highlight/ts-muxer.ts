import { crc32, PACKET, STREAM_PID } from '../hls/ts-packets.ts'

/**
 * Writes MPEG-TS (ISO/IEC 13818-1) with one H.264 stream. ffmpeg's own muxer would shift each joined piece by the
 * reordering delay of its encoder; here every time stamp follows from the number of the frame.
 */
export interface TsMuxer {
  /** What a segment begins with: the two tables that name the stream. */
  tables(): Buffer
  /** The packets of one picture. `frame` is its place in the highlight, `order` its place in decoding order. */
  picture(unit: { frame: number; order: number; isKeyframe: boolean; data: Buffer }): Buffer
}

const CLOCK = 90_000
export const TICKS_PER_FRAME = CLOCK / 30
/** Presentation time of the first frame: where ffmpeg puts it too with an offset of 10 s, as it does the sound. */
const ORIGIN = 11.4 * CLOCK
/** Frames by which x264 reorders at most with its three B-frames and a pyramid of them. */
const REORDER_FRAMES = 2
/** How long a decoder may hold a picture before its time, as ffmpeg's muxer sets it. */
const BUFFER_TICKS = 0.7 * CLOCK

const PAYLOAD = PACKET - 4
const PAT_PID = 0
const PMT_PID = 0x1000

export function openTsMuxer(): TsMuxer {
  const counters = new Map<number, number>()

  /** Writes the next packet of a PID at `at`, with `payload` from `from` on, and returns how much of it fitted. */
  function write(
    out: Buffer,
    at: number,
    { pid, payload, from, field }: { pid: number; payload: Buffer; from: number; field?: Buffer },
  ): number {
    const count = counters.get(pid) ?? 0
    counters.set(pid, (count + 1) % 16)
    const length = Math.min(payload.length - from, field ? PAYLOAD - 1 - field.length : PAYLOAD)
    const room = PAYLOAD - length
    out.writeUInt8(0x47, at)
    out.writeUInt16BE((from === 0 ? 0x4000 : 0) | pid, at + 1)
    out.writeUInt8((room > 0 ? 0x30 : 0x10) | count, at + 3)
    // What neither the payload nor the field fills is stuffed.
    out.fill(0xff, at + 4, at + 4 + room)
    if (room > 0) out.writeUInt8(room - 1, at + 4)
    if (room > 1) (field ?? NO_FIELD).copy(out, at + 5)
    payload.copy(out, at + PACKET - length, from, from + length)
    return length
  }

  /** Tables are stuffed behind their end, not by an adaptation field. */
  function table(pid: number, section: Buffer): Buffer {
    const out = Buffer.alloc(PACKET)
    const payload = Buffer.concat([Buffer.of(0), section], PAYLOAD).fill(0xff, 1 + section.length)
    write(out, 0, { pid, payload, from: 0 })
    return out
  }

  return {
    tables: () => Buffer.concat([table(PAT_PID, PAT), table(PMT_PID, PMT)]),
    picture({ frame, order, isKeyframe, data }) {
      const pts = ORIGIN + frame * TICKS_PER_FRAME
      const dts = ORIGIN + (order - REORDER_FRAMES) * TICKS_PER_FRAME
      if (pts < dts) throw new Error(`frame ${frame} would be shown before it is decoded`)
      const payload = Buffer.concat([pesHeader(pts, dts), data])
      const field = clockField(dts - BUFFER_TICKS, isKeyframe)
      const packets = 1 + Math.max(0, Math.ceil((payload.length - (PAYLOAD - 1 - field.length)) / PAYLOAD))
      // One buffer for all packets: there are 5,000 a second.
      const out = Buffer.allocUnsafe(packets * PACKET)
      let from = write(out, 0, { pid: STREAM_PID, payload, from: 0, field })
      for (let at = PACKET; at < out.length; at += PACKET) from += write(out, at, { pid: STREAM_PID, payload, from })
      return out
    },
  }
}

const NO_FIELD = Buffer.of(0)

/** An adaptation field with the program clock, and whether a decoder can start here (§2.4.3.4). */
function clockField(base: number, isKeyframe: boolean): Buffer {
  const field = Buffer.alloc(7)
  field.writeUInt8(isKeyframe ? 0x50 : 0x10, 0)
  // 33 bits of the clock, six reserved bits, nine bits of the extension.
  field.writeUInt32BE(Math.floor(base / 2), 1)
  field.writeUInt16BE(((base % 2) << 15) | 0x7e00, 5)
  return field
}

/** §2.4.3.6; the length may be 0 for video. */
const pesHeader = (pts: number, dts: number): Buffer =>
  Buffer.concat([Buffer.of(0, 0, 1, 0xe0, 0, 0, 0x84, 0xc0, 10), stamp(3, pts), stamp(1, dts)])

function stamp(marker: number, ticks: number): Buffer {
  const bytes = Buffer.alloc(5)
  bytes.writeUInt8((marker << 4) | (Math.floor(ticks / 2 ** 30) << 1) | 1, 0)
  bytes.writeUInt16BE(((Math.floor(ticks / 2 ** 15) & 0x7fff) << 1) | 1, 1)
  bytes.writeUInt16BE(((ticks & 0x7fff) << 1) | 1, 3)
  return bytes
}

/** A table with its length and checksum (§2.4.4). */
function sectionOf(id: number, number: number, body: readonly number[]): Buffer {
  const length = 5 + body.length + 4
  const head = Buffer.of(id, 0xb0 | (length >> 8), length & 0xff, number >> 8, number & 0xff, 0xc1, 0, 0, ...body)
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32BE(crc32(head))
  return Buffer.concat([head, checksum])
}

const reserved = (pid: number) => [0xe0 | (pid >> 8), pid & 0xff]
const H264 = 0x1b
const PAT = sectionOf(0, 1, [0, 1, ...reserved(PMT_PID)])
const PMT = sectionOf(2, 1, [...reserved(STREAM_PID), 0xf0, 0, H264, ...reserved(STREAM_PID), 0xf0, 0])
