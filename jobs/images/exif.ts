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
const UNREADABLE: Block = { ...NONE, isReadable: false }
/** Cameras write some hundred entries, and in HEIF up to a megabyte with a maker note. */
const MAX_BYTES = 1024 * 1024
const MAX_ENTRIES = 512
const SIZES = [0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8]
const [NO_TYPE, BYTE, SHORT, LONG] = [0, 1, 3, 4]
/** That of a directory's address, the last of TIFF. */
const LAST_TYPE = 13
/** The tags that hold the address of another directory. */
const DIRECTORIES = [0x8769, 0x8825, 0xa005]

/** The reader takes one spelling of a time and drops all others, so these are read as they are written. */
const TIMES: Readonly<Record<number, string>> = {
  306: 'DateTime',
  36867: 'DateTimeOriginal',
  36868: 'DateTimeDigitized',
}
const MAX_TIME_BYTES = 64
/** Of two the reader takes the last, and vips the first. */
const ORIENTATION = 274

const PREFIX = 'Exif\0\0'
const BYTE_ORDERS = ['II*\0', 'MM\0*']

export const isTiff = (block: Buffer | null): boolean => BYTE_ORDERS.includes(block?.toString('latin1', 0, 4) ?? '')

/**
 * Reads a TIFF block as EXIF. A block that is broken or absurd counts as none; `isReadable` tells them apart. It is also
 * false where something was left out: a value that reaches beyond the block, as that of a maker note that an editor has
 * cut, or a whole directory. Some writers leave the header of JPEG in front of the block.
 */
export function parseExif(exif: Buffer | null): Block {
  if (!exif) return NONE
  try {
    const tiff = exif.toString('latin1', 0, PREFIX.length) === PREFIX ? exif.subarray(PREFIX.length) : exif
    const block = tiff.subarray(0, MAX_BYTES)
    // The reader accepts one more header, behind which all addresses would mean other places than in `entriesOf`.
    if (!isTiff(block)) return UNREADABLE
    const grows = mayGrow(block)
    const safe = grows ? withoutExcess(block) : block
    // Directories may overlap, so that the copy has other entries than the block.
    if (grows && mayGrow(safe)) return UNREADABLE
    const own = ownReading(block)
    const { bigEndian: _, ...directories } = readExif(safe)
    const names = Object.values(directories).flatMap((tags) => Object.keys(tags ?? {}))
    // The reader leaves out a directory that does not end within the block.
    const hasAll = tiff.length <= MAX_BYTES && Object.values(directories).every((tags) => tags !== null)
    const isReadable = !grows && hasAll && isWhole(block, names.length)
    const { Image, Photo, GPSInfo } = directories
    const written = (tags: Tags | undefined): Tags =>
      Object.fromEntries(Object.entries(tags ?? {}).map(([name, value]) => [name, own.get(name) ?? value]))
    return { image: written(Image), photo: written(Photo), gps: GPSInfo ?? {}, isReadable, names }
  } catch {
    return UNREADABLE
  }
}

/**
 * Whether the tags would take much more memory than the block: the reader makes an array of every value, and thousands of
 * entries that all point at the same 64 KiB would become gigabytes. So the values together may not be larger than the block.
 */
function mayGrow(block: Buffer): boolean {
  let [bytes, entries] = [0, 0]
  for (const entry of entriesOf(block)) {
    bytes += entry.size
    entries += 1
    if (entries > MAX_ENTRIES || bytes > block.length || isOddAddress(entry)) return true
  }
  return false
}

/** The reader also follows numbers of other types, to directories that are not counted. */
const isOddAddress = (entry: Entry) =>
  DIRECTORIES.includes(entry.tag) && ![NO_TYPE, LONG].includes(entry.type) && !!SIZES[entry.type] && !isShort(entry)

/** One number of two bytes: some programs write the address of a directory near the beginning so. */
const isShort = ({ type, size }: Entry) => type === SHORT && size === 2

/**
 * Whether the reader found each entry, and the whole of its value. Of tags that repeat in a directory it takes the last, of
 * a chain of directories the first two, and to others it goes only by one number of the usual type. A directory that is
 * named twice it may have counted twice.
 */
function isWhole(block: Buffer, found: number): boolean {
  const named: number[] = []
  const entries = [...entriesOf(block, named)]
  const isUsual = ({ tag, type, size }: Entry) => !DIRECTORIES.includes(tag) || (type === LONG && size === 4)
  const isEachOnce = entries.length === found && new Set(named).size === named.length
  return isEachOnce && entries.every((entry) => !isCutOff(entry, block) && isUsual(entry))
}

const isCutOff = ({ at, size }: Entry, block: Buffer) => at + size > block.length

/** A copy whose entries have no type, which the reader skips, where they claim more than there is. */
function withoutExcess(block: Buffer): Buffer {
  const copy = Buffer.from(block)
  for (const entry of entriesOf(block)) {
    if (isCutOff(entry, block) || isOddAddress(entry)) copy.writeUInt16LE(NO_TYPE, entry.from + 2)
  }
  return copy
}

/** The times and the orientation by their names, of the first directory that has them. */
function ownReading(block: Buffer): Map<string, string | number> {
  const own = new Map<string, string | number>()
  for (const { tag, size, at, value } of entriesOf(block)) {
    const name = TIMES[tag]
    if (name && !own.has(name)) own.set(name, textAt(block, at, size))
    if (tag === ORIENTATION && value !== undefined && !own.has('Orientation')) own.set('Orientation', value)
  }
  return own
}

interface Entry {
  /** Where it begins. */
  from: number
  tag: number
  type: number
  /** The bytes of its value, and where they lie. */
  size: number
  at: number
  /** The number, or the first of several. Undefined for none, and for what is no whole number without a sign. */
  value: number | undefined
}

/** Up to the first that is too many. `named` receives the address of each directory as often as it is written. */
function* entriesOf(block: Buffer, named: number[] = []): Generator<Entry> {
  let entries = 0
  for (const entry of allEntriesOf(block, named)) {
    yield entry
    entries += 1
    if (entries > MAX_ENTRIES) return
  }
}

/** The entries of all directories. */
function* allEntriesOf(block: Buffer, named: number[]): Generator<Entry> {
  const { u16, u32 } = numbersOf(block)
  const directories = new Set<number>()
  const name = (address: number) => {
    if (address === 0) return
    named.push(address)
    directories.add(address)
  }
  // Directories of the image and of its thumbnail.
  const chain = new Set([u32(4)])
  name(u32(4))
  // A set also yields what is added to it on the way, each directory once.
  for (const from of directories) {
    if (from + 2 > block.length) continue
    const count = Math.min(u16(from), Math.floor((block.length - from - 2) / 12))
    const next = from + 2 + 12 * count
    for (let at = from + 2; at < next; at += 12) {
      const entry = entryAt(block, at)
      yield entry
      if (DIRECTORIES.includes(entry.tag)) name(isShort(entry) ? u16(at + 8) : u32(at + 8))
    }
    const after = nextOf(block, next, chain.has(from))
    if (chain.has(from)) chain.add(after)
    name(after)
  }
}

/**
 * The address of the next directory, at `at`; 0 for none. Directories outside the chain have none, and some programs put values
 * in its place, but a reader may follow one that leads to a directory.
 */
function nextOf(block: Buffer, at: number, isInChain: boolean): number {
  if (at + 4 > block.length) return 0
  const next = numbersOf(block).u32(at)
  return isInChain || isDirectory(block, next) ? next : 0
}

/** Whether a whole directory may lie there. */
function isDirectory(block: Buffer, from: number): boolean {
  const { u16 } = numbersOf(block)
  if (from === 0 || from + 2 > block.length) return false
  const count = u16(from)
  if (count === 0 || from + 2 + 12 * count > block.length) return false
  const types = Array.from({ length: count }, (_, i) => u16(from + 4 + 12 * i))
  return types.every((type) => type >= BYTE && type <= LAST_TYPE)
}

function entryAt(block: Buffer, from: number): Entry {
  const { u16, u32 } = numbersOf(block)
  const [tag, type] = [u16(from), u16(from + 2)]
  const size = (SIZES[type] ?? 0) * u32(from + 4)
  const at = size <= 4 ? from + 8 : u32(from + 8)
  const hasValue = size > 0 && at + size <= block.length
  return { from, tag, type, size, at, value: hasValue ? numberIn(block, type, at) : undefined }
}

function numberIn(block: Buffer, type: number, at: number): number | undefined {
  const { u16, u32 } = numbersOf(block)
  if (type === BYTE) return block[at]
  if (type === SHORT) return u16(at)
  return type === LONG ? u32(at) : undefined
}

function numbersOf(block: Buffer) {
  const isBig = block.toString('latin1', 0, 2) === 'MM'
  return {
    u16: (at: number) => (isBig ? block.readUInt16BE(at) : block.readUInt16LE(at)),
    u32: (at: number) => (isBig ? block.readUInt32BE(at) : block.readUInt32LE(at)),
  }
}

/** Up to the first NUL, of which cameras write one, two, or none. */
const textAt = (block: Buffer, at: number, size: number): string =>
  block.toString('latin1', at, at + Math.min(size, MAX_TIME_BYTES)).split('\0')[0] ?? ''
