/** How many of the first bytes suffice to detect the type of a file. */
export const SNIFF_BYTES = 4096

export type MediaKind = 'image' | 'video'

/** What a client says that it sends. Undefined for a type such as `application/octet-stream`. */
export function declaredKind(mimeType: string): MediaKind | undefined {
  const [kind] = mimeType.split('/')
  return kind === 'image' || kind === 'video' ? kind : undefined
}
export interface Sniffed {
  mimeType: string
  kind: MediaKind
}

const image = (mimeType: string): Sniffed => ({ mimeType, kind: 'image' })
const video = (mimeType: string): Sniffed => ({ mimeType, kind: 'video' })

/**
 * Detects the type of a file from its first bytes alone; the type that the client declares does not count. Undefined
 * for all files but the images and videos listed here: for documents, scripts, archives, playlists, drawings. `maxBytes`:
 * what the whole file has at most.
 */
export function sniff(head: Buffer, maxBytes: number): Sniffed | undefined {
  const at = (offset: number, text: string) => head.toString('latin1', offset, offset + text.length) === text
  if (at(0, '\xff\xd8\xff')) return image('image/jpeg')
  if (at(0, '\x89PNG\r\n\x1a\n') && at(12, 'IHDR')) return image('image/png')
  if (at(0, 'GIF87a') || at(0, 'GIF89a')) return image('image/gif')
  if (at(0, 'RIFF') && at(8, 'WEBPVP8')) return image('image/webp')
  if (at(0, '\x1a\x45\xdf\xa3')) return isWebm(head) ? video('video/webm') : undefined
  if (at(4, 'ftyp')) return byBrands(head)
  const fileBytes = head.length < SNIFF_BYTES ? head.length : maxBytes
  return isOldQuickTime(head, fileBytes) ? video('video/quicktime') : undefined
}

/** ISO/IEC 14496-12 §4.3: the brands registered at mp4ra.org that phones and cameras write. */
const BRANDS: readonly (readonly [RegExp, Sniffed])[] = [
  [/^avi[fs]$/, image('image/avif')],
  [/^he(ic|ix|im|is)$/, image('image/heic')],
  [/^he(vc|vx|vm|vs)$/, image('image/heic-sequence')],
  [/^mif1$/, image('image/heif')],
  [/^msf1$/, image('image/heif-sequence')],
  [/^qt {2}$/, video('video/quicktime')],
  [/^M4V[ HP]$/, video('video/x-m4v')],
  [/^3g[ehps][0-9a-z]$/, video('video/3gpp')],
  [/^3gp[0-9a-z]$/, video('video/3gpp')],
  [/^3g2[a-c]$/, video('video/3gpp2')],
  [/^(isom|iso[2-9a-c]|mp4[12]|avc1|mmp4|MSNV|XAVC|dash|cmfc|hvc1|hev1|av01|NDSC|NDSM|niko)$/, video('video/mp4')],
]
/** Brands that do not decide the type when others do: a HEIC file may begin with mif1. */
const GENERIC = /^(mif1|msf1|isom|iso[2-9a-c]|mp4[12])$/
/** Audio, raw sensor data, JPEG 2000 and documents in the same box format: refused, whatever other brands they list. */
const REFUSED = /^(M4A |M4B |M4P |F4A |F4B |crx |jp2 |jpx |jpm |jxl |caqv)$/

function byBrands(head: Buffer): Sniffed | undefined {
  const size = head.readUInt32BE(0)
  if (size < 16 || size > SNIFF_BYTES || size > head.length) return undefined
  const major = head.toString('latin1', 8, 12)
  const brands = [major]
  for (let offset = 16; offset + 4 <= size; offset += 4) brands.push(head.toString('latin1', offset, offset + 4))
  if (REFUSED.test(major)) return undefined
  const specific = GENERIC.test(major) ? brands.filter((b) => /^(avi[fs]|he(ic|ix|im|is|vc|vx|vm|vs))$/.test(b)) : []
  return firstKnown([...specific, ...brands])
}

const firstKnown = (brands: readonly string[]) =>
  brands.map((brand) => BRANDS.find(([pattern]) => pattern.test(brand))?.[1]).find((known) => known !== undefined)

/** WebM is a restricted form of Matroska. The document type is within the first bytes of the header. */
function isWebm(head: Buffer): boolean {
  const docType = head.subarray(0, 64).indexOf(Buffer.from([0x42, 0x82, 0x84]))
  return docType > 0 && head.toString('latin1', docType + 3, docType + 7) === 'webm'
}

/** More than a camera leaves free for an index. The size of a text that has `free` in this place is larger. */
const FREE_BYTES = 16 * 1024 ** 2

/**
 * QuickTime files older than `ftyp` begin with another box; a second known box rules out coincidence. Cameras that write
 * straight to a card begin with the content or with free space and add the index at the end: the second box is beyond these
 * bytes, and the size of the first one must leave room for it.
 */
function isOldQuickTime(head: Buffer, fileBytes: number): boolean {
  const first = boxAt(head, 0)
  if (!first) return false
  const { size, type } = first
  if (type === 'moov') return ['mvhd', 'cmov', 'rmra'].includes(boxAt(head, 8)?.type ?? '')
  if (size < 8 || !['wide', 'free', 'skip', 'pnot', 'mdat'].includes(type)) return false
  if (size + 8 <= head.length) return SECOND.includes(boxAt(head, size)?.type ?? '')
  return size + 8 <= fileBytes && (type === 'mdat' || (/^(free|skip)$/.test(type) && size <= FREE_BYTES))
}

const SECOND: readonly string[] = ['mdat', 'moov', 'free', 'wide', 'PICT', 'skip']

/** A size of 0 is that of the rest of the file, and 1 one that is not in these bytes. */
function boxAt(head: Buffer, offset: number): { size: number; type: string } | undefined {
  if (offset + 8 > head.length) return undefined
  let size = head.readUInt32BE(offset)
  // The size follows the type, in 64 bits.
  if (size === 1 && offset + 16 <= head.length) size = Number(head.readBigUInt64BE(offset + 8))
  return size === 0 || size === 1 || size >= 8
    ? { size, type: head.toString('latin1', offset + 4, offset + 8) }
    : undefined
}
