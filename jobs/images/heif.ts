import { declaredProfile } from './declared-profile.ts'
import { type Bytes, blank, corrupt, type ImageHeader, tooLarge, truncated } from './header.ts'
import { boxesIn, cursor } from './heif-boxes.ts'
import { type Item, type Meta, readMeta } from './heif-meta.ts'

/** Phones make at most 200 tiles; a decoder starts anew for every one. */
const MAX_TILES = 4096
/** What describes a picture, all together. Items may lie over each other, so the file's length limits nothing. */
const MAX_DESCRIBING = 4 * 1024 ** 2
const CODED = ['hvc1', 'av01']
const PLAIN = new Set(['ftyp', 'meta', 'mdat', 'free', 'skip'])

/**
 * Reads the boxes of a HEIF or AVIF file (ISO/IEC 23008-12). Only the primary item counts; gain maps, depth maps and
 * thumbnails are never decoded. Pure.
 */
export function readHeif(bytes: Bytes, format: 'heif' | 'avif'): ImageHeader {
  const { head, size } = bytes
  const boxes = boxesIn(head, 0, size)
  const box = boxes.find((b) => b.type === 'meta')
  if (!box || box.data.length < 4) throw head.length === size ? truncated() : corrupt()
  if (box.at + box.data.length === head.length && head.length < size) throw tooLarge('The image describes too much')
  const meta = readMeta(box)
  refuseMissingBytes(meta, size)
  const item = meta.items.get(meta.primary)
  if (!item) throw corrupt('The image has no primary item')
  const stored = sizeOf(item)
  refuseGridBomb(meta, bytes, stored)
  const turn = property(item, 'irot')?.[0] ?? 0
  const [width, height] = turn % 2 === 1 ? [stored.height, stored.width] : [stored.width, stored.height]
  const colours = coloursOf(item, codedOf(meta))
  const brand = head.toString('latin1', 8, 12)
  return {
    ...blank,
    format,
    width,
    height,
    isTurnedByContainer: property(item, 'irot') !== undefined || property(item, 'imir') !== undefined,
    isAnimated: brand === 'avis' || brand === 'hevc' || brand === 'msf1',
    memoryBytes: memoryOf(meta, item, size),
    mayBeTransparent: [...meta.items.values()].some(isAlpha),
    exif: exifOf(meta, bytes),
    xmp: textsOf(meta, bytes) ?? [],
    ...colours,
    isPlain:
      boxes.every((b) => PLAIN.has(b.type)) &&
      [...meta.items.values()].every((i) => isPlainItem(i)) &&
      isDescribedOnce(meta, bytes),
  }
}

const isPlainItem = ({ type, contentType }: Item) =>
  [...CODED, 'grid', 'iovl', 'iden', 'Exif', 'tmap'].includes(type) ||
  (type === 'mime' && contentType === 'application/rdf+xml')

/** At most one EXIF, and all of what describes the picture in the part of the file that was read. */
function isDescribedOnce(meta: Meta, bytes: Bytes): boolean {
  const [exif, ...more] = describing(meta, (i) => i.type === 'Exif')
  if (more.length > 0 || textsOf(meta, bytes) === undefined) return false
  return exif === undefined || contentOf(exif, meta, bytes) !== undefined
}

/** Undefined when a text is missing, or when they are too long to be looked through. */
function textsOf(meta: Meta, bytes: Bytes): Buffer[] | undefined {
  const items = describing(meta, (i) => i.type === 'mime')
  if (items.reduce((sum, item) => sum + lengthOf(item), 0) > MAX_DESCRIBING) return undefined
  const texts = items.flatMap((i) => contentOf(i, meta, bytes) ?? [])
  return texts.length === items.length ? texts : undefined
}

const lengthOf = ({ extents }: Item) => extents.reduce((sum, { length }) => sum + length, 0)

const ALPHA = ['urn:mpeg:mpegB:cicp:systems:auxiliary:alpha', 'urn:mpeg:hevc:2015:auxid:1']
const isAlpha = (item: Item) =>
  ALPHA.includes(property(item, 'auxC')?.subarray(4).toString('latin1').split('\0')[0] ?? '')

const property = (item: Item | undefined, type: string): Buffer | undefined =>
  item?.properties.find((p) => p.type === type)?.data

function sizeOf(item: Item): { width: number; height: number } {
  const ispe = property(item, 'ispe')
  if (!ispe || ispe.length < 12) throw corrupt('The image has no size')
  return { width: ispe.readUInt32BE(4), height: ispe.readUInt32BE(8) }
}

/** The coded picture, or the first tile of a grid. */
function codedOf(meta: Meta): Item | undefined {
  const [first] = meta.references.find((r) => r.type === 'dimg' && r.from === meta.primary)?.to ?? []
  return first === undefined ? meta.items.get(meta.primary) : meta.items.get(first)
}

/**
 * Bytes per pixel of 8 bits that libheif and its decoders were measured to hold at once, rounded up: the planes, the
 * decoder's own copy of them, and the pixels made of them. The file itself is held too.
 */
const HELD = { hvc1: { subsampled: 5.7, full: 9 }, av01: { subsampled: 6.6, full: 12.9 }, alpha: 2.3 }

function memoryOf(meta: Meta, item: Item, size: number): number {
  const coded = codedOf(meta)
  const { width, height } = sizeOf(item)
  const held = HELD[coded?.type === 'av01' ? 'av01' : 'hvc1'][isSubsampled(coded) ? 'subsampled' : 'full']
  const alpha = [...meta.items.values()].some(isAlpha) ? HELD.alpha : 0
  return size + width * height * (held + alpha) * (depthOf(item, coded) > 8 ? 2 : 1)
}

/**
 * Colors at half the resolution in both directions, or none at all. Of HEVC also those at half the width alone, as cameras
 * write them: they were measured to take as little.
 */
function isSubsampled(coded: Item | undefined): boolean {
  const av1 = property(coded, 'av1C')?.[2]
  if (av1 !== undefined) return (av1 & 0x10) !== 0 || (av1 & 0x0c) === 0x0c
  return ((property(coded, 'hvcC')?.[16] ?? 3) & 3) < 3
}

function depthOf(item: Item, coded: Item | undefined): number {
  const pixi = property(item, 'pixi') ?? property(coded, 'pixi')
  if (pixi && pixi.length > 5) return Math.max(...pixi.subarray(5))
  const av1 = property(coded, 'av1C')?.[2]
  if (av1 !== undefined) return av1 & 0x40 ? 10 : 8
  return 8 + ((property(coded, 'hvcC')?.[17] ?? 0) & 7)
}

function coloursOf(item: Item, coded: Item | undefined): Pick<ImageHeader, 'profile' | 'declaredProfile'> {
  const all = [...item.properties, ...(coded?.properties ?? [])].filter((p) => p.type === 'colr').map((p) => p.data)
  const kind = (data: Buffer) => data.toString('latin1', 0, 4)
  const profile = all.find((data) => kind(data) === 'prof' || kind(data) === 'rICC')
  const nclx = all.find((data) => kind(data) === 'nclx' && data.length >= 10)
  const declared = nclx ? declaredProfile(nclx.readUInt16BE(4), nclx.readUInt16BE(6)) : null
  return { profile: profile?.subarray(4) ?? null, declaredProfile: profile === undefined ? declared : null }
}

/** A file of a few kilobytes can name the same tile thousands of times. */
function refuseGridBomb(meta: Meta, bytes: Bytes, canvas: { width: number; height: number }): void {
  const item = meta.items.get(meta.primary)
  if (item?.type !== 'grid') {
    if (item && !CODED.includes(item.type) && item.type !== 'iden') throw corrupt('The image is of an unknown kind')
    return
  }
  const grid = gridOf(contentOf(item, meta, bytes))
  const tiles = meta.references.find((r) => r.type === 'dimg' && r.from === meta.primary)?.to ?? []
  if (grid.tiles > MAX_TILES) throw tooLarge(`The image consists of ${grid.tiles} tiles`)
  if (tiles.length !== grid.tiles) throw corrupt('The image lacks tiles')
  if (grid.width !== canvas.width || grid.height !== canvas.height) throw corrupt('The image has two sizes')
  const decoded = tiles.reduce((sum, id) => sum + tilePixels(meta.items.get(id)), 0)
  // The last row and column of tiles may reach beyond the picture.
  if (decoded > 4 * grid.width * grid.height + 4_194_304) throw tooLarge('The tiles are much larger than the image')
}

function gridOf(content: Buffer | undefined): { tiles: number; width: number; height: number } {
  if (!content) throw corrupt()
  const grid = cursor(content)
  const bytes = grid.number(2) % 2 === 1 ? 4 : 2
  const [rows, columns] = [grid.number(1) + 1, grid.number(1) + 1]
  return { tiles: rows * columns, width: grid.number(bytes), height: grid.number(bytes) }
}

function tilePixels(tile: Item | undefined): number {
  if (!tile || !CODED.includes(tile.type)) throw corrupt('The image lacks tiles')
  const { width, height } = sizeOf(tile)
  return width * height
}

function refuseMissingBytes({ items, idat }: Meta, size: number): void {
  for (const { extents } of items.values()) {
    if (extents.some((e) => e.offset + e.length > (e.inIdat ? idat.length : size))) throw truncated()
  }
}

const describing = (meta: Meta, is: (item: Item) => boolean): Item[] => [...meta.items.values()].filter(is)

/** The bytes of an item in one piece; undefined when they are many, or beyond the part of the file that was read. */
function contentOf(item: Item, { idat }: Meta, { head }: Bytes): Buffer | undefined {
  const { extents } = item
  if (lengthOf(item) > MAX_DESCRIBING) return undefined
  const parts = extents.map(({ inIdat, offset, length }) => (inIdat ? idat : head).subarray(offset, offset + length))
  const isWhole = extents.every(({ length }, i) => parts[i]?.length === length)
  if (!isWhole || extents.length === 0 || extents.length > 16) return undefined
  return parts.length === 1 ? parts[0] : Buffer.concat(parts)
}

function exifOf(meta: Meta, bytes: Bytes): Buffer | null {
  const [item] = describing(meta, (i) => i.type === 'Exif')
  const content = item && contentOf(item, meta, bytes)
  if (!content || content.length < 12) return null
  // The offset of the TIFF header comes first; some writers count the text `Exif\0\0` in, some do not.
  const tiff = content.subarray(4 + content.readUInt32BE(0))
  return tiff.toString('latin1', 0, 4) === 'Exif' ? tiff.subarray(6) : tiff
}
