import type { OwnFile } from '../../requests/own-data.ts'

/** A file name of this length works everywhere, also with a number behind it. */
const MAX_SEGMENT_BYTES = 200
// biome-ignore lint/suspicious/noControlCharactersInRegex: a file system refuses control characters in a name, so this finds and replaces them
const FORBIDDEN = /[\u0000-\u001f\u007f-\u009f/\\:*?"<>|]/g
/** Invisible, or reordering what stands around them: `gpj.exe` reads `exe.jpg`. */
const HIDDEN = /[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u00ad]/g
/** Names of devices on Windows, with any extension. */
const RESERVED = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?:\.|$)/i
const EXTENSION = /\.[A-Za-z0-9]{1,10}$/

/** A text of a person as one segment of a path, which no system takes for anything else. Never empty. */
export function segmentOf(given: string, fallback: string): string {
  const clean = given.toWellFormed().normalize('NFC').replace(HIDDEN, '').replace(FORBIDDEN, '_').replace(/\s+/g, ' ')
  const extension = EXTENSION.exec(clean.trim())?.[0] ?? ''
  const stem = clean.trim().slice(0, clean.trim().length - extension.length)
  const name = trimmed(cutToBytes(stem, MAX_SEGMENT_BYTES - extension.length)) + extension
  const named = trimmed(name) === '' || trimmed(name) === extension.slice(1) ? fallback + extension : trimmed(name)
  return RESERVED.test(named) ? `_${named}` : named
}

/** Windows drops dots and spaces at the end; a dot at the start hides a file, and two of them lead elsewhere. */
const trimmed = (text: string) => text.replace(/^[. ]+|[. ]+$/g, '')

const graphemes = new Intl.Segmenter('und', { granularity: 'grapheme' })

function cutToBytes(text: string, most: number): string {
  if (Buffer.byteLength(text) <= most) return text
  let kept = ''
  let bytes = 0
  for (const { segment } of graphemes.segment(text)) {
    bytes += Buffer.byteLength(segment)
    if (bytes > most) break
    kept += segment
  }
  return kept
}

/** `2026/2026-11-21 Class reunion/IMG_1.jpg`, or `2026/2026-11/IMG_1.jpg` outside of events. In UTC. */
export function wantedPath({ filename, takenAt, event }: Pick<OwnFile, 'filename' | 'takenAt' | 'event'>): string {
  const day = (event?.startAt ?? takenAt).toISOString().replace(/^\+?0*(?=\d{4}-)/, '')
  const folder = event ? segmentOf(`${day.slice(0, 10)} ${event.title}`, 'event') : day.slice(0, 7)
  return `${day.slice(0, 4)}/${folder}/${segmentOf(filename, 'file')}`
}

/** The path for the n-th file that wants it: ` (2)` before the extension. */
export function numberedPath(path: string, nth: number): string {
  if (nth === 1) return path
  const extension = EXTENSION.exec(path)?.[0] ?? ''
  const at = path.lastIndexOf('/') + 1
  const suffix = ` (${nth})`
  const stem = path.slice(at, path.length - extension.length)
  const room = MAX_SEGMENT_BYTES - Buffer.byteLength(extension) - suffix.length
  return `${path.slice(0, at)}${cutToBytes(stem, room).trimEnd()}${suffix}${extension}`
}

/** Equal for paths that some system takes for one: case does not count. */
export const comparable = (path: string): string => path.normalize('NFC').toUpperCase().toLowerCase()

export interface Wanting {
  mediaId: string
  wanted: string
}

export interface Named {
  path: string
  nth: number
}

/**
 * A path for each, in their order, which no other file has. `highest`: the highest number that files of before have, by
 * comparable wanted path. `isTaken` says which paths other files have; it is asked again until none has one of these.
 */
export async function namePaths(
  files: readonly Wanting[],
  highest: ReadonlyMap<string, number>,
  findTaken: (paths: readonly string[]) => Promise<ReadonlySet<string>>,
): Promise<Map<string, Named>> {
  const numbers = new Map(highest)
  const named = new Map<string, Named>()
  const own = new Set<string>()
  for (let left = [...files]; left.length > 0; ) {
    const candidates = left.map((file) => {
      const key = comparable(file.wanted)
      const nth = (numbers.get(key) ?? 0) + 1
      numbers.set(key, nth)
      return { file, nth, path: numberedPath(file.wanted, nth) }
    })
    const taken = await findTaken(candidates.map(({ path }) => comparable(path)))
    left = []
    for (const { file, nth, path } of candidates) {
      const key = comparable(path)
      if (taken.has(key) || own.has(key)) {
        left.push(file)
        continue
      }
      own.add(key)
      named.set(file.mediaId, { path, nth })
    }
  }
  return named
}
