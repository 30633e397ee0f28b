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

/** Reads a TIFF block as EXIF. A block that is broken or absurd counts as none; `isReadable` tells them apart. */
export function parseExif(tiff: Buffer | null): Block {
  if (!tiff) return NONE
  try {
    const block = tiff.subarray(0, MAX_BYTES)
    if (!isModest(block)) return { ...NONE, isReadable: false }
    const { bigEndian: _, ...directories } = readExif(block)
    const names = Object.values(directories).flatMap((tags) => Object.keys(tags ?? {}))
    const { Image, Photo, GPSInfo } = directories
    return {
      image: written(Image ?? {}, block),
      photo: written(Photo ?? {}, block),
      gps: GPSInfo ?? {},
      isReadable: true,
      names,
    }
  } catch {
    return { ...NONE, isReadable: false }
  }
}

/**
 * Without the times that are not in the block as they were read. The reader takes zeros for a day in 1899, the year 1 for
 * 1901, and a day that does not exist for a later one.
 */
function written(tags: Tags, block: Buffer): Tags {
  const isWritten = (value: unknown) =>
    !(value instanceof Date) || block.includes(value.toISOString().slice(0, 19).replaceAll('-', ':').replace('T', ' '))
  return Object.fromEntries(Object.entries(tags).filter(([, value]) => isWritten(value)))
}

/**
 * The reader makes an array of every value. Thousands of entries that all point at the same 64 KiB would become
 * gigabytes, so the values together may not be larger than the block.
 */
function isModest(block: Buffer): boolean {
  const isBig = block.toString('latin1', 0, 2) === 'MM'
  const u16 = (at: number) => (isBig ? block.readUInt16BE(at) : block.readUInt16LE(at))
  const u32 = (at: number) => (isBig ? block.readUInt32BE(at) : block.readUInt32LE(at))
  const directories = new Set([u32(4)])
  let [bytes, entries] = [0, 0]
  // A set also yields what is added to it on the way, each directory once.
  for (const at of directories) {
    if (at === 0 || at + 2 > block.length) continue
    const count = Math.min(u16(at), Math.floor((block.length - at - 2) / 12))
    entries += count
    if (entries > MAX_ENTRIES) return false
    for (let entry = at + 2; entry < at + 2 + 12 * count; entry += 12) {
      bytes += (SIZES[u16(entry + 2)] ?? 0) * u32(entry + 4)
      if (DIRECTORIES.includes(u16(entry))) directories.add(u32(entry + 8))
    }
    const next = at + 2 + 12 * count
    if (next + 4 <= block.length) directories.add(u32(next))
  }
  return bytes <= block.length
}
