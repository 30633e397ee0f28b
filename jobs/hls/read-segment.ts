import {
  adaptationOf,
  crc32,
  isRandomAccess,
  isUnitStart,
  PACKET,
  payloadStart,
  pesHeader,
  pidOf,
  SegmentFault,
  STREAM_PID,
  tsPackets,
} from './ts-packets.ts'

/** What a segment of H.264 holds. */
export interface SegmentFacts {
  /** RFC 6381, from its first parameter set: `avc1.64001f`. */
  codec: string
  frames: number
  /** The times of the first and the last frame that are shown, in seconds. */
  first: number
  last: number
  /** The times of the frames with which a decoder can start, in seconds and in their order. */
  keyframes: number[]
}

const CLOCK = 90_000
const PAT_PID = 0
const H264 = 0x1b
/** x264 writes its settings before its first slice. */
const MAX_HEAD_BYTES = 64 * 1024
const START_CODE = Buffer.of(0, 0, 1)
const [SLICE, IDR_SLICE, PARAMETERS] = [1, 5, 7]

/**
 * Reads each packet of a segment as a player would: its tables name the stream, the numbers of its packets follow each
 * other, each picture has its time, and the first one is a keyframe behind its parameter sets. Throws a SegmentFault where
 * that is not so.
 */
export async function readSegment(path: string, signal?: AbortSignal): Promise<SegmentFacts> {
  const tables = openTables()
  const pictures = openPictures()
  for await (const bytes of tsPackets(path)) {
    signal?.throwIfAborted()
    for (let at = 0; at < bytes.length; at += PACKET) {
      const pid = pidOf(bytes, at)
      if (pid !== STREAM_PID) tables.add(bytes, at, pid)
      else if (tables.nameStream()) pictures.add(bytes, at)
      else throw new SegmentFault('no table names its stream')
    }
  }
  return pictures.end()
}

/** The program's table names the stream, and the first table names that one. */
function openTables() {
  let [programPid, isNamed] = [Number.NaN, false]
  return {
    nameStream: () => isNamed,
    add(bytes: Buffer, at: number, pid: number): void {
      if (isNamed || (pid !== PAT_PID && pid !== programPid)) return
      const section = sectionAt(bytes, at)
      if (!section) return
      if (pid === PAT_PID) programPid = section.readUInt16BE(10) & 0x1fff
      else isNamed = namesStream(section)
    },
  }
}

/** The section that begins in the packet at `at`, with its checksum; undefined for any that is not whole. */
function sectionAt(bytes: Buffer, at: number): Buffer | undefined {
  const start = payloadStart(bytes, at)
  if (!isUnitStart(bytes, at) || start >= at + PACKET) return undefined
  const section = bytes.subarray(start + 1 + bytes.readUInt8(start), at + PACKET)
  if (section.length < 3) return undefined
  const whole = section.subarray(0, 3 + (section.readUInt16BE(1) & 0xfff))
  return whole.length >= 16 && crc32(whole) === 0 ? whole : undefined
}

/** Whether a program's table (§2.4.4.8) has H.264 as its first stream, with the PID that is read here. */
function namesStream(section: Buffer): boolean {
  const at = 12 + (section.readUInt16BE(10) & 0xfff)
  if (at + 3 > section.length - 4) return false
  return section.readUInt8(at) === H264 && (section.readUInt16BE(at + 1) & 0x1fff) === STREAM_PID
}

function openPictures() {
  const facts: SegmentFacts = { codec: '', frames: 0, first: Number.POSITIVE_INFINITY, last: 0, keyframes: [] }
  const counter = openCounter()
  const head = Buffer.allocUnsafe(MAX_HEAD_BYTES)
  let length = 0
  /** What the head of the current picture has told, and where to go on: reading it from its beginning again is quadratic. */
  let seen: Head = { next: 0 }
  /** Whether the slice of the current picture was found. */
  let isKnown = true

  function begin(bytes: Buffer, at: number): void {
    if (!isKnown) throw new SegmentFault('a picture without a slice')
    if (facts.frames === 0 && !isRandomAccess(bytes, at)) throw new SegmentFault('does not begin with a keyframe')
    length = 0
    seen = { next: 0 }
    isKnown = false
  }

  function look(): void {
    const { pts, payload } = pesHeader(head.subarray(0, length))
    seen = readHead(head.subarray(payload, length), seen)
    const { slice, codec } = seen
    if (slice === undefined) {
      if (length === MAX_HEAD_BYTES) throw new SegmentFault('a picture without a slice')
      return
    }
    isKnown = true
    const time = pts / CLOCK
    if (facts.frames === 0 && (slice !== IDR_SLICE || codec === undefined)) {
      throw new SegmentFault('does not begin with a keyframe')
    }
    if (facts.codec === '' && codec !== undefined) facts.codec = codec
    facts.frames += 1
    facts.first = Math.min(facts.first, time)
    facts.last = Math.max(facts.last, time)
    if (slice === IDR_SLICE) facts.keyframes.push(time)
  }

  return {
    add(bytes: Buffer, at: number): void {
      if (!counter.hasNext(bytes, at)) return
      if (isUnitStart(bytes, at)) begin(bytes, at)
      else if (facts.frames === 0 && isKnown) throw new SegmentFault('does not begin with a picture')
      if (isKnown) return
      length += bytes.copy(head, length, payloadStart(bytes, at), at + PACKET)
      look()
    },
    end(): SegmentFacts {
      if (!isKnown) throw new SegmentFault('a picture without a slice')
      if (facts.frames === 0) throw new SegmentFault('has no frames')
      return facts
    },
  }
}

/** Packets with a payload are numbered from 0 to 15, again and again. */
function openCounter() {
  let last: number | undefined
  return {
    /** Whether the packet at `at` has a payload, which is then the next one. */
    hasNext(bytes: Buffer, at: number): boolean {
      const isDamaged = (bytes.readUInt8(at + 1) & 0x80) !== 0 || adaptationOf(bytes, at) > PACKET - 4
      if (isDamaged) throw new SegmentFault('a packet is damaged')
      const flags = bytes.readUInt8(at + 3)
      if ((flags & 0x10) === 0) return false
      const next = flags & 0x0f
      if (last !== undefined && next !== ((last + 1) & 0x0f)) throw new SegmentFault('a packet is missing')
      last = next
      return true
    },
  }
}

interface Head {
  /** The type of the first slice. */
  slice?: number
  /** Of a parameter set before it. */
  codec?: string
  /** Where what is not read yet begins. */
  next: number
}

/** Reads on behind Annex B start codes, up to the first slice. */
function readHead(stream: Buffer, { next, ...before }: Head): Head {
  const found: Omit<Head, 'next'> = before
  let at = stream.indexOf(START_CODE, next)
  for (; at !== -1; at = stream.indexOf(START_CODE, at + 3)) {
    const type = at + 3 < stream.length ? stream.readUInt8(at + 3) & 0x1f : PARAMETERS
    if (type >= SLICE && type <= IDR_SLICE) return { ...found, slice: type, next: at }
    if (type !== PARAMETERS) continue
    // The next packet brings the rest.
    if (at + 7 > stream.length) return { ...found, next: at }
    // Its first three bytes are profile, constraint flags and level.
    found.codec ??= `avc1.${stream.toString('hex', at + 4, at + 7)}`
  }
  return { ...found, next: Math.max(next, stream.length - START_CODE.length + 1) }
}
