/**
 * Reads and writes what the initialization of an fMP4 stream says of its HEVC (ISO/IEC 14496-12 and 14496-15). Pure. The
 * files are those of ffmpeg's muxer; what they hold comes from an upload.
 */

const HEADER = 8
/** The boxes that lead to `hvcC`, each with the bytes before its children. */
const PATH: readonly (readonly [type: string, head: number])[] = [
  ['moov', HEADER],
  ['trak', HEADER],
  ['mdia', HEADER],
  ['minf', HEADER],
  ['stbl', HEADER],
  ['stsd', HEADER + 8],
  ['hvc1', HEADER + 78],
]
/** Of `hvcC`, before its arrays of parameter sets. */
const CONFIGURATION = 23
/** The types of NAL units that are parameter sets: video, sequence, picture. */
const PARAMETER_SETS = new Set([32, 33, 34])
/** Of a picture at which a decoder can begin. */
const FIRST_IRAP = 16
const LAST_IRAP = 21

export interface Initialization {
  /** RFC 6381 and ISO/IEC 14496-15 Annex E: `hvc1.1.6.L93.B0`. */
  codec: string
  /** The same without the messages (SEI) that cameras and encoders leave beside the parameter sets. */
  bytes: Buffer
}

/** Undefined where it is not that of one HEVC stream with its parameter sets. */
export function readInitialization(file: Buffer): Initialization | undefined {
  const path: number[] = []
  let [from, to] = [0, file.length]
  for (const [type, head] of PATH) {
    const box = findBox(file, type, from, to)
    if (!box || box.start + head > box.end) return undefined
    path.push(box.start)
    ;[from, to] = [box.start + head, box.end]
  }
  const box = findBox(file, 'hvcC', from, to)
  if (!box || box.end - box.start < HEADER + CONFIGURATION) return undefined
  const configuration = file.subarray(box.start + HEADER, box.end)
  const arrays = arraysOf(configuration)
  const kept = arrays?.filter(({ type }) => PARAMETER_SETS.has(type))
  if (!kept || new Set(kept.map(({ type }) => type)).size !== PARAMETER_SETS.size) return undefined
  const head = Buffer.from(configuration.subarray(0, CONFIGURATION))
  head.writeUInt8(kept.length, CONFIGURATION - 1)
  const written = Buffer.concat([head, ...kept.map(({ bytes }) => bytes)])
  const less = configuration.length - written.length
  const bytes = Buffer.concat([file.subarray(0, box.start + HEADER), written, file.subarray(box.end)])
  for (const start of [...path, box.start]) bytes.writeUInt32BE(file.readUInt32BE(start) - less, start)
  return { codec: codecOf(configuration), bytes }
}

interface Box {
  start: number
  end: number
}

function findBox(file: Buffer, wanted: string, from: number, to: number): Box | undefined {
  for (let start = from; start + HEADER <= to; ) {
    const size = file.readUInt32BE(start)
    const end = start + size
    if (size < HEADER || end > to) return undefined
    if (file.toString('latin1', start + 4, start + HEADER) === wanted) return { start, end }
    start = end
  }
  return undefined
}

/** Each as it is written; undefined where they do not fill the box. */
function arraysOf(configuration: Buffer): { type: number; bytes: Buffer }[] | undefined {
  const arrays: { type: number; bytes: Buffer }[] = []
  let at = CONFIGURATION
  for (let left = configuration.readUInt8(CONFIGURATION - 1); left > 0; left--) {
    const start = at
    if (start + 3 > configuration.length) return undefined
    at += 3
    for (let units = configuration.readUInt16BE(start + 1); units > 0; units--) {
      if (at + 2 > configuration.length) return undefined
      at += 2 + configuration.readUInt16BE(at)
    }
    if (at > configuration.length) return undefined
    arrays.push({ type: configuration.readUInt8(start) & 0x3f, bytes: configuration.subarray(start, at) })
  }
  return at === configuration.length ? arrays : undefined
}

function codecOf(configuration: Buffer): string {
  const profile = configuration.readUInt8(1)
  const space = ['', 'A', 'B', 'C'][profile >> 6]
  const tier = (profile & 0x20) === 0 ? 'L' : 'H'
  // The flags of compatibility in the opposite order, then six bytes of constraints without the zeros at their end.
  const flags = configuration.readUInt32BE(2).toString(2).padStart(32, '0')
  const compatibility = Number.parseInt([...flags].reverse().join(''), 2)
    .toString(16)
    .toUpperCase()
  const constraints = configuration
    .toString('hex', 6, 12)
    .toUpperCase()
    .replace(/(?:00)+$/, '')
  return [
    `hvc1.${space}${profile & 0x1f}`,
    compatibility,
    `${tier}${configuration.readUInt8(12)}`,
    ...(constraints.match(/../g) ?? []),
  ].join('.')
}

/** Whether the first picture of a segment, whose media data begins with `bytes`, is one at which a decoder can begin. */
export function beginsWithPicture(bytes: Buffer): boolean {
  if (bytes.length < 6) return false
  const type = (bytes.readUInt8(4) >> 1) & 0x3f
  return type >= FIRST_IRAP && type <= LAST_IRAP
}
