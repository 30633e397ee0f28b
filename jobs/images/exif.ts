import readExif from 'exif-reader'

type Tags = Readonly<Record<string, unknown>>

/** The directories of an EXIF block. */
export interface Exif {
  image: Tags
  photo: Tags
  gps: Tags
}

/** What is known of a whole block. */
interface Block extends Exif {
  isReadable: boolean
  /** The names of all tags in all directories, those of the thumbnail too. Unknown ones are numbers. */
  names: readonly string[]
}

const NONE: Block = { image: {}, photo: {}, gps: {}, isReadable: true, names: [] }
/** Cameras write some hundred entries, and in HEIF up to a megabyte with a maker note. */
const MAX_BYTES = 1024 * 1024
const MAX_ENTRIES = 512
const SIZES = [0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8]
const DIRECTORIES = [0x8769, 0x8825, 0xa005]

/** The reader takes one spelling of a time and drops all others, so these are read as they are written. */
const TIMES: Readonly<Record<number, string>> = {
  306: 'DateTime',
  36867: 'DateTimeOriginal',
  36868: 'DateTimeDigitized',
}
const MAX_TIME_BYTES = 64

/** Reads a TIFF block as EXIF. A block that is broken or absurd counts as none; `isReadable` tells them apart. */
export function parseExif(tiff: Buffer | null): Block {
  if (!tiff) return NONE
  try {
    const block = tiff.subarray(0, MAX_BYTES)
    const times = timesOf(block)
    if (!times) return { ...NONE, isReadable: false }
    const { bigEndian: _, ...directories } = readExif(block)
    const names = Object.values(directories).flatMap((tags) => Object.keys(tags ?? {}))
    const { Image, Photo, GPSInfo } = directories
    const written = (tags: Tags | undefined): Tags =>
      Object.fromEntries(Object.entries(tags ?? {}).map(([name, value]) => [name, times.get(name) ?? value]))
    return { image: written(Image), photo: written(Photo), gps: GPSInfo ?? {}, isReadable: true, names }
  } catch {
    return { ...NONE, isReadable: false }
  }
}

/**
 * The times by their names, of the first directory that has them. Undefined for a block that would grow: the reader makes an
 * array of every value, and thousands of entries that all point at the same 64 KiB would become gigabytes. So the values
 * together may not be larger than the block.
 */
function timesOf(block: Buffer): Map<string, string> | undefined {
  const times = new Map<string, string>()
  let [bytes, entries] = [0, 0]
  for (const { tag, size, at } of entriesOf(block)) {
    bytes += size
    entries += 1
    if (entries > MAX_ENTRIES || bytes > block.length) return undefined
    const name = TIMES[tag]
    if (name && !times.has(name)) times.set(name, textAt(block, at, size))
  }
  return times
}

/** The entries of all directories: where the value of each lies, and its bytes. */
function* entriesOf(block: Buffer): Generator<{ tag: number; size: number; at: number }> {
  const isBig = block.toString('latin1', 0, 2) === 'MM'
  const u16 = (at: number) => (isBig ? block.readUInt16BE(at) : block.readUInt16LE(at))
  const u32 = (at: number) => (isBig ? block.readUInt32BE(at) : block.readUInt32LE(at))
  const directories = new Set([u32(4)])
  // A set also yields what is added to it on the way, each directory once.
  for (const from of directories) {
    if (from === 0 || from + 2 > block.length) continue
    const count = Math.min(u16(from), Math.floor((block.length - from - 2) / 12))
    const next = from + 2 + 12 * count
    for (let entry = from + 2; entry < next; entry += 12) {
      const [tag, size] = [u16(entry), (SIZES[u16(entry + 2)] ?? 0) * u32(entry + 4)]
      yield { tag, size, at: size <= 4 ? entry + 8 : u32(entry + 8) }
      if (DIRECTORIES.includes(tag)) directories.add(u32(entry + 8))
    }
    if (next + 4 <= block.length) directories.add(u32(next))
  }
}

/** Up to the first NUL, of which cameras write one, two, or none. */
const textAt = (block: Buffer, at: number, size: number): string =>
  block.toString('latin1', at, at + Math.min(size, MAX_TIME_BYTES)).split('\0')[0] ?? ''
