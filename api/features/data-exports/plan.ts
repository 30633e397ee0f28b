export interface ArchiveLimits {
  /** Of an archive. */
  bytes: number
  /** Of that, room for its page, and in part 1 for what is no file of the person. */
  pageBytes: number
  dataBytes: number
  /** Originals in an archive: what is known of each is in memory while it is made. */
  files: number
}

/** Below 2³² bytes and 2¹⁶ entries, every program opens an archive. */
export const LIMITS: ArchiveLimits = {
  bytes: 4_000_000_000,
  pageBytes: 50_000_000,
  dataBytes: 300_000_000,
  files: 20_000,
}

const LOCAL_HEADER = 30
const DESCRIPTOR = 16
const CENTRAL_HEADER = 46
const TIMESTAMP = 9
const END = 22
/** What large values cost more (APPNOTE 4.3.9.2, 4.5.3, 4.3.14, 4.3.15). */
const DESCRIPTOR_64 = 8
const CENTRAL_64 = 28
const END_64 = 76
const MAX_32 = 0xffff_ffff
const MAX_16 = 0xffff

export interface Sized {
  path: string
  bytes: number
}

/** The exact length of an archive of stored entries, as yazl writes it. */
export function archiveBytes(entries: readonly Sized[]): number {
  let offset = 0
  let directory = 0
  for (const { path, bytes } of entries) {
    const name = Buffer.byteLength(path)
    const isLarge = bytes >= MAX_32 || offset >= MAX_32
    offset += LOCAL_HEADER + name + bytes + DESCRIPTOR + (isLarge ? DESCRIPTOR_64 : 0)
    directory += CENTRAL_HEADER + name + TIMESTAMP + (isLarge ? CENTRAL_64 : 0)
  }
  const isLarge = entries.length >= MAX_16 || offset >= MAX_32 || directory >= MAX_32
  return offset + directory + END + (isLarge ? END_64 : 0)
}

/** What an entry adds to its archive. */
export const entryBytes = ({ path, bytes }: Sized): number => archiveBytes([{ path, bytes }]) - END

/** Where the plan stands. */
export interface Packing {
  /** The part that is filled, with what is in it. */
  open: number
  openBytes: number
  openFiles: number
  /** The highest number of a part. */
  last: number
}

const roomOf = (part: number, { bytes, pageBytes, dataBytes }: ArchiveLimits) =>
  bytes - pageBytes - (part === 1 ? dataBytes : 0)

/** The part for a file of this size, and where the plan stands then. A file that fits in no part gets one of its own. */
export function place(packing: Packing, bytes: number, limits: ArchiveLimits): { part: number; packing: Packing } {
  const { open, openBytes, openFiles, last } = packing
  if (openBytes + bytes <= roomOf(open, limits) && openFiles < limits.files) {
    return { part: open, packing: { ...packing, openBytes: openBytes + bytes, openFiles: openFiles + 1 } }
  }
  const part = last + 1
  if (bytes > roomOf(part, limits)) return { part, packing: { ...packing, last: part } }
  return { part, packing: { open: part, openBytes: bytes, openFiles: 1, last: part } }
}

/** Some files that have to be in one part, such as those of a film. */
export function placeTogether(
  packing: Packing,
  files: { count: number; bytes: number },
  limits: ArchiveLimits,
): { part: number; packing: Packing } {
  const placed = place(packing, files.bytes, limits)
  if (placed.part !== placed.packing.open) return placed
  return { ...placed, packing: { ...placed.packing, openFiles: placed.packing.openFiles + files.count - 1 } }
}

/** `keepsake-2026-11-21-part-2-of-3.zip`. */
export function archiveName(createdAt: Date, number: number, parts: number): string {
  const day = createdAt.toISOString().slice(0, 10)
  return parts === 1 ? `keepsake-${day}.zip` : `keepsake-${day}-part-${number}-of-${parts}.zip`
}

/** How often a plan or a part may fail, or its worker die, before the export has failed. */
export const MAX_FAILURES = 10
/** Before the next attempt: from ten seconds to half an hour, two hours in all. */
export const retrySeconds = (failures: number): number => Math.min(1800, 10 * 2 ** Math.min(failures - 1, 8))

/** New exports of one person within a day: of their own data, and as many of events. */
export const MAX_A_DAY = 3
