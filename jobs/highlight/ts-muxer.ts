/**
 * Writes MPEG-TS (ISO/IEC 13818-1) with one H.264 stream. ffmpeg's own muxer would shift each joined piece by the
 * reordering delay of its encoder; here every time stamp follows from the number of the frame.
 */
export interface TsMuxer {
  /** What a segment begins with: the two tables that name the stream. */
  tables(): Buffer
  /** The packets of one picture. `frame` is its place in the film, `order` its place in decoding order. */
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

const PACKET = 188
const PAYLOAD = PACKET - 4
const PAT_PID = 0
const PMT_PID = 0x1000
const STREAM_PID = 0x100

export function openTsMuxer(): TsMuxer {
  const counters = new Map<number, number>()

  /** The next packet of a PID; what the payload does not fill is stuffed. */
  function packet(pid: number, payload: Buffer, { begins, field }: { begins: boolean; field?: Buffer }): Buffer {
    const count = counters.get(pid) ?? 0
    counters.set(pid, (count + 1) % 16)
    const room = PAYLOAD - payload.length
    const bytes = Buffer.alloc(PACKET, 0xff)
    bytes.writeUInt8(0x47, 0)
    bytes.writeUInt16BE((begins ? 0x4000 : 0) | pid, 1)
    bytes.writeUInt8((room > 0 ? 0x30 : 0x10) | count, 3)
    if (room > 0) bytes.writeUInt8(room - 1, 4)
    if (room > 1) (field ?? Buffer.of(0)).copy(bytes, 5)
    payload.copy(bytes, PACKET - payload.length)
    return bytes
  }

  /** Tables are stuffed behind their end, not by an adaptation field. */
  const table = (pid: number, section: Buffer) =>
    packet(pid, Buffer.concat([Buffer.of(0), section], PAYLOAD).fill(0xff, 1 + section.length), { begins: true })

  return {
    tables: () => Buffer.concat([table(PAT_PID, PAT), table(PMT_PID, PMT)]),
    picture({ frame, order, isKeyframe, data }) {
      const pts = ORIGIN + frame * TICKS_PER_FRAME
      const dts = ORIGIN + (order - REORDER_FRAMES) * TICKS_PER_FRAME
      if (pts < dts) throw new Error(`frame ${frame} would be shown before it is decoded`)
      const bytes = Buffer.concat([pesHeader(pts, dts), data])
      const field = clockField(dts - BUFFER_TICKS, isKeyframe)
      const first = Math.min(bytes.length, PAYLOAD - 1 - field.length)
      const packets = [packet(STREAM_PID, bytes.subarray(0, first), { begins: true, field })]
      for (let at = first; at < bytes.length; at += PAYLOAD) {
        packets.push(packet(STREAM_PID, bytes.subarray(at, at + PAYLOAD), { begins: false }))
      }
      return Buffer.concat(packets)
    },
  }
}

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

/** The checksum of MPEG: polynomial 0x04c11db7, not reflected, without a final inversion. */
function crc32(bytes: Buffer): number {
  let crc = 0xffffffff
  for (const byte of bytes) {
    crc ^= byte << 24
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x80000000 ? (crc << 1) ^ 0x04c11db7 : crc << 1
  }
  return crc >>> 0
}
