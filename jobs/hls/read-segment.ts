import { type Head, IDR_SLICE, readHead } from './picture-head.ts'
import { isNextPacket, type SegmentFacts } from './segment-facts.ts'
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

const CLOCK = 90_000
const PAT_PID = 0
const H264 = 0x1b
/** x264 writes its settings before its first slice. */
const MAX_HEAD_BYTES = 64 * 1024

/**
 * Reads each packet of a segment as a player would: its tables name the stream, the numbers of its packets follow each
 * other, each picture has its times, and the first one is a keyframe behind both of its parameter sets. Pictures are decoded
 * one after the other and no two are shown at once; with B-frames, the order of the two differs. Throws a SegmentFault where
 * that is not so. Keyframes are IDR pictures: an I-frame with a recovery point, which ffprobe counts too, is none. The clock
 * of 33 bits begins again after 26.5 hours, and a segment in which it does is refused: videos end long before.
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
  const counter = openCounter()
  const times = openTimes()
  const head = Buffer.allocUnsafe(MAX_HEAD_BYTES)
  let codec: string | undefined
  let length = 0
  /** What the head of the current picture has told, and where to go on: reading it from its beginning again is quadratic. */
  let seen: Head = { next: 0 }
  /** Whether the slice of the current picture was found. */
  let isKnown = true

  function begin(bytes: Buffer, at: number): void {
    if (!isKnown) throw new SegmentFault('a picture without a slice')
    if (times.frames() === 0 && !isRandomAccess(bytes, at)) throw new SegmentFault('does not begin with a keyframe')
    length = 0
    seen = { next: 0 }
    isKnown = false
  }

  function look(): void {
    const { pts, dts, payload } = pesHeader(head.subarray(0, length))
    seen = readHead(head.subarray(payload, length), seen)
    const { slice } = seen
    if (slice === undefined) {
      if (length === MAX_HEAD_BYTES) throw new SegmentFault('a picture without a slice')
      return
    }
    isKnown = true
    if (times.frames() === 0 && !canStartWith(seen)) throw new SegmentFault('does not begin with a keyframe')
    codec ??= seen.codec
    times.add({ pts, dts, isKeyframe: slice === IDR_SLICE })
  }

  return {
    add(bytes: Buffer, at: number): void {
      if (!counter.hasNext(bytes, at)) return
      if (isUnitStart(bytes, at)) begin(bytes, at)
      else if (times.frames() === 0 && isKnown) throw new SegmentFault('does not begin with a picture')
      if (isKnown) return
      length += bytes.copy(head, length, payloadStart(bytes, at), at + PACKET)
      look()
    },
    end(): SegmentFacts {
      if (!isKnown) throw new SegmentFault('a picture without a slice')
      if (times.frames() === 0 || codec === undefined) throw new SegmentFault('has no frames')
      return { codec, packets: counter.ends(), ...times.end() }
    },
  }
}

const canStartWith = ({ slice, codec, hasPictureSet }: Head): boolean =>
  slice === IDR_SLICE && codec !== undefined && hasPictureSet === true

/** The times of the pictures of a segment, in their order of decoding; `pts` and `dts` are ticks. */
function openTimes() {
  const shown: number[] = []
  const keyframes: number[] = []
  let [from, to] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]
  return {
    frames: () => shown.length,
    add({ pts, dts, isKeyframe }: { pts: number; dts: number; isKeyframe: boolean }): void {
      if (dts <= to) throw new SegmentFault('a picture is decoded before the one before it')
      if (shown.length === 0) from = dts
      to = dts
      shown.push(pts)
      if (isKeyframe) keyframes.push(pts / CLOCK)
    },
    end(): Omit<SegmentFacts, 'codec' | 'packets'> {
      const inOrder = shown.toSorted((a, b) => a - b)
      if (inOrder.some((pts, k) => pts === inOrder[k - 1])) throw new SegmentFault('two pictures are shown at once')
      const [first = Number.NaN, last = Number.NaN] = [inOrder[0], inOrder.at(-1)]
      const decoded = { first: from / CLOCK, last: to / CLOCK }
      return { frames: shown.length, first: first / CLOCK, last: last / CLOCK, keyframes, decoded }
    },
  }
}

/** The numbers of the packets with a payload. */
function openCounter() {
  let [first, last]: [number?, number?] = []
  return {
    /** Whether the packet at `at` has a payload, which is then the next one. */
    hasNext(bytes: Buffer, at: number): boolean {
      const isDamaged = (bytes.readUInt8(at + 1) & 0x80) !== 0 || adaptationOf(bytes, at) > PACKET - 4
      if (isDamaged) throw new SegmentFault('a packet is damaged')
      const flags = bytes.readUInt8(at + 3)
      if ((flags & 0x10) === 0) return false
      const next = flags & 0x0f
      if (last !== undefined && !isNextPacket(last, next)) throw new SegmentFault('a packet is missing')
      first ??= next
      last = next
      return true
    },
    ends: () => ({ first: first ?? Number.NaN, last: last ?? Number.NaN }),
  }
}
