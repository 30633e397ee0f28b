import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { deflateSync } from 'node:zlib'
import sharp, { type Exif, type Sharp } from 'sharp'

const run = promisify(execFile)

/** Red, green, blue and white quarters from the top left: every turn and flip of them looks different. */
export const QUARTERS = [
  [220, 30, 30],
  [30, 180, 30],
  [30, 30, 220],
  [240, 240, 240],
] as const

export function quarters(width: number, height: number): Sharp {
  const data = Buffer.alloc(width * height * 3)
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const quarter = QUARTERS[(y * 2 >= height ? 2 : 0) + (x * 2 >= width ? 1 : 0)] ?? [0, 0, 0]
      data.set(quarter, (y * width + x) * 3)
    }
  }
  return sharp(data, { raw: { width, height, channels: 3 } })
}

/** The index in `QUARTERS` of the colour nearest to the middle of each quarter of a picture, row by row. */
export async function arrangement(picture: Buffer): Promise<number[]> {
  const { data, info } = await sharp(picture).removeAlpha().raw().toBuffer({ resolveWithObject: true })
  const at = (x: number, y: number) => {
    const i = (Math.floor(y * info.height) * info.width + Math.floor(x * info.width)) * info.channels
    const distances = QUARTERS.map((q) => q.reduce((sum, v, c) => sum + (v - (data[i + c] ?? 0)) ** 2, 0))
    return distances.indexOf(Math.min(...distances))
  }
  return [at(0.25, 0.25), at(0.75, 0.25), at(0.25, 0.75), at(0.75, 0.75)]
}

/** What a phone writes about its owner. */
export const PHONE: Exif = {
  IFD0: { Make: 'Acme', Model: 'Phone 3', Software: 'Secret 1.0' },
  IFD2: {
    DateTimeOriginal: '2024:05:17 12:20:30',
    OffsetTimeOriginal: '+02:00',
    ExposureTime: '1/120',
    FNumber: '18/10',
    LensModel: 'Acme 26mm',
    BodySerialNumber: 'SERIAL-42',
  },
  IFD3: {
    GPSLatitudeRef: 'N',
    GPSLatitude: '48/1 8/1 636/100',
    GPSLongitudeRef: 'W',
    GPSLongitude: '11/1 34/1 552/10',
  },
}

/** EXIF as a TIFF block. */
export async function tiffOf(exif: Exif, orientation = 1): Promise<Buffer> {
  const jpeg = await quarters(16, 16).withExif(exif).withMetadata({ orientation }).jpeg().toBuffer()
  return (await sharp(jpeg).metadata()).exif?.subarray(6) ?? Buffer.alloc(0)
}

export const box = (type: string, ...parts: Buffer[]) => {
  const body = Buffer.concat(parts)
  const header = Buffer.alloc(8)
  header.writeUInt32BE(body.length + 8)
  header.write(type, 4, 'latin1')
  return Buffer.concat([header, body])
}
export const full = (type: string, version: number, flags: number, ...parts: Buffer[]) =>
  box(type, Buffer.from([version, 0, 0, flags]), ...parts)
export const u16 = (...values: number[]) => Buffer.concat(values.map((v) => Buffer.from([v >> 8, v & 255])))
export const u32 = (...values: number[]) => {
  const buffer = Buffer.alloc(4 * values.length)
  for (const [i, v] of values.entries()) buffer.writeUInt32BE(v, 4 * i)
  return buffer
}

/** A TIFF block, whose first directory is at 8 unless it says otherwise. */
export const tiff = (parts: readonly Buffer[], first = 8): Buffer =>
  Buffer.concat([Buffer.from('MM\0*', 'latin1'), u32(first), ...parts])

/** A directory of TIFF, of 6 bytes and 12 for each entry. `value` is what is in the field: a number, or the address of one. */
export const directory = (entries: readonly Field[], next = 0): Buffer =>
  Buffer.concat([
    u16(entries.length),
    ...entries.flatMap(([tag, type, ...rest]) => [u16(tag, type), u32(...rest)]),
    u32(next),
  ])

type Field = readonly [tag: number, type: number, count: number, value: number]

export interface HeicOptions {
  /** Quarter turns to the left that a reader makes. */
  irot?: number
  imir?: number
  exif?: Buffer
  /** An ICC profile. */
  profile?: Buffer
  /** Of the `nclx` box; 12 is Display P3. */
  primaries?: number
  /** Of the `nclx` box; 16 is PQ, 18 is HLG. */
  transfer?: number
  tenBit?: boolean
  gainMap?: boolean
  rows?: number
  columns?: number
  tile?: number
  /** What the grid says of itself instead of the truth. */
  claims?: { rows?: number; columns?: number; width?: number; height?: number; tiles?: number }
}

interface Item {
  id: number
  type: string
  isHidden: boolean
  bytes: Buffer
  inIdat: boolean
  /** Numbers of properties; 0x80 marks those that readers must know. */
  uses: number[]
  reference?: { type: string; to: number[] }
}

const GRID = 1001

/** A HEIC as phones make it: a grid of HEVC tiles, EXIF, and often a gain map. `picture` fits into the tiles. */
export async function heic(picture: Buffer, options: HeicOptions = {}): Promise<Buffer> {
  const { rows = 6, columns = 8, tile = 64, tenBit = false, claims = {} } = options
  const { width, height } = { ...(await sharp(picture).metadata()), ...claims }
  const { hvcC, tiles } = await tilesOf(picture, { rows, columns, tile, tenBit })
  const sides = Buffer.from([0, 1, (claims.rows ?? rows) - 1, (claims.columns ?? columns) - 1])
  const descriptor = Buffer.concat([sides, u32(width, height)])
  const properties = [
    hvcC,
    full('ispe', 0, 0, u32(tile, tile)),
    full('ispe', 0, 0, u32(width, height)),
    box('irot', Buffer.from([options.irot ?? 0])),
    full('auxC', 0, 0, Buffer.from('urn:com:apple:photo:2020:aux:hdrgainmap\0')),
    options.profile
      ? box('colr', Buffer.from('prof'), options.profile)
      : box('colr', Buffer.from('nclx'), u16(options.primaries ?? 1, options.transfer ?? 13, 6), Buffer.from([0x80])),
    box('imir', Buffer.from([options.imir ?? 0])),
  ]
  return fileOf(itemsOf(options, tiles, descriptor), properties, descriptor)
}

function itemsOf({ irot, imir, exif, gainMap, claims }: HeicOptions, tiles: Buffer[], descriptor: Buffer): Item[] {
  const hevc = { type: 'hvc1', inIdat: false, uses: [0x81, 2] }
  const named = Array.from({ length: claims?.tiles ?? tiles.length }, (_, i) => (i % tiles.length) + 1)
  const turns = [...(irot === undefined ? [] : [0x84]), ...(imir === undefined ? [] : [0x87])]
  const items: Item[] = tiles.map((bytes, i) => ({ ...hevc, id: i + 1, isHidden: true, bytes }))
  items.push({
    ...{ id: GRID, type: 'grid', isHidden: false, bytes: descriptor, inIdat: true, uses: [3, 6, ...turns] },
    reference: { type: 'dimg', to: named },
  })
  if (exif) {
    const bytes = Buffer.concat([u32(0), exif])
    const reference = { type: 'cdsc', to: [GRID] }
    items.push({ id: GRID + 1, type: 'Exif', isHidden: false, bytes, inIdat: false, uses: [], reference })
  }
  const [bytes] = tiles
  if (gainMap && bytes) {
    const reference = { type: 'auxl', to: [GRID] }
    items.push({ ...hevc, id: GRID + 2, isHidden: false, bytes, uses: [0x81, 2, 0x85], reference })
  }
  return items
}

function fileOf(items: Item[], properties: Buffer[], idat: Buffer): Buffer {
  const inFile = items.filter((i) => !i.inIdat)
  const iloc = (base: number) => {
    let at = base
    const entries = items.map(({ id, inIdat, bytes }) => {
      const offset = inIdat ? 0 : at
      if (!inIdat) at += bytes.length
      return Buffer.concat([u16(id, inIdat ? 1 : 0, 0, 1), u32(offset, bytes.length)])
    })
    return full('iloc', 1, 0, Buffer.from([0x44, 0]), u16(items.length), ...entries)
  }
  const entries = items.map((i) => full('infe', 2, i.isHidden ? 1 : 0, u16(i.id, 0), Buffer.from(`${i.type}\0`)))
  const references = items.flatMap(({ id, reference }) =>
    reference ? [box(reference.type, u16(id, reference.to.length, ...reference.to))] : [],
  )
  const uses = items.map((i) => Buffer.concat([u16(i.id), Buffer.from([i.uses.length, ...i.uses])]))
  const meta = (base: number) =>
    full(
      ...(['meta', 0, 0] as const),
      full('hdlr', 0, 0, u32(0), Buffer.from('pict'), Buffer.alloc(13)),
      full('pitm', 0, 0, u16(GRID)),
      iloc(base),
      full('iinf', 0, 0, u16(entries.length), ...entries),
      full('iref', 0, 0, ...references),
      box('iprp', box('ipco', ...properties), full('ipma', 0, 0, u32(uses.length), ...uses)),
      box('idat', idat),
    )
  const ftyp = box('ftyp', Buffer.from('heic\0\0\0\0mif1heicmiaf', 'latin1'))
  const base = ftyp.length + meta(0).length + 8
  return Buffer.concat([ftyp, meta(base), box('mdat', ...inFile.map((i) => i.bytes))])
}

interface Tiles {
  rows: number
  columns: number
  tile: number
  tenBit: boolean
}

/** The tiles of a picture, by how it is cut: many files that differ only around them are made of one. */
const known = new WeakMap<Buffer, Map<string, ReturnType<typeof encodeTiles>>>()

function tilesOf(picture: Buffer, how: Tiles): ReturnType<typeof encodeTiles> {
  const ofPicture = known.get(picture) ?? new Map()
  known.set(picture, ofPicture)
  const name = JSON.stringify(how)
  const tiles = ofPicture.get(name) ?? encodeTiles(picture, how)
  ofPicture.set(name, tiles)
  tiles.catch(() => ofPicture.delete(name))
  return tiles
}

/** ffmpeg cuts and encodes the tiles; each becomes one frame of a video, all of them keyframes. */
async function encodeTiles(picture: Buffer, { rows, columns, tile, tenBit }: Tiles) {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-heic-'))
  try {
    const [from, to] = [join(folder, 'picture.png'), join(folder, 'tiles.mp4')]
    await writeFile(from, await sharp(picture).png().toBuffer())
    const format = tenBit ? 'yuv420p10le' : 'yuv420p'
    const filters = [
      'format=gbrp',
      `pad=${columns * tile}:${rows * tile}`,
      `scale=out_color_matrix=bt601:out_range=pc,format=${format}`,
      `untile=${columns}x${rows}`,
    ]
    const x265 =
      'keyint=1:info=0:log-level=error:range=full:colormatrix=smpte170m:colorprim=bt709:transfer=iec61966-2-1'
    await run('ffmpeg', [
      ...['-v', 'error', '-y', '-i', from, '-vf', filters.join(','), '-c:v', 'libx265', '-preset', 'ultrafast'],
      ...['-crf', '12', '-x265-params', x265, '-tag:v', 'hvc1', to],
    ])
    const video = await readFile(to)
    const { stdout } = await run('ffprobe', ['-v', 'error', '-show_entries', 'packet=pos,size', '-of', 'csv=p=0', to])
    const places = stdout
      .trim()
      .split('\n')
      .map((line) => line.split(',').map(Number) as [number, number])
    const at = video.indexOf('hvcC')
    const hvcC = video.subarray(at - 4, at - 4 + video.readUInt32BE(at - 4))
    const inOrder = places.sort(([, a], [, b]) => a - b)
    return { hvcC, tiles: inOrder.map(([size, pos]) => video.subarray(pos, pos + size)) }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const CRC = Array.from({ length: 256 }, (_, n) => {
  let c = n
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1
  return c >>> 0
})
const crc32 = (data: Buffer) =>
  (data.reduce((c, b) => ((CRC[(c ^ b) & 255] ?? 0) ^ (c >>> 8)) >>> 0, 0xffffffff) ^ 0xffffffff) >>> 0

/** A chunk of a PNG. */
export function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  return Buffer.concat([u32(data.length), body, u32(crc32(body))])
}

/** A black PNG of one bit per pixel: a kilobyte or two for a hundred megapixels. */
export function blackPng(width: number, height: number, interlace = 0): Buffer {
  const rows = Buffer.alloc((Math.ceil(width / 8) + 1) * height)
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', Buffer.concat([u32(width, height), Buffer.from([1, 0, 0, 0, interlace])])),
    chunk('IDAT', deflateSync(rows, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}
