import { deflateSync } from 'node:zlib'
import sharp from 'sharp'
import { box, chunk, full, heic, quarters, u16, u32 } from './pictures.ts'

const MIB = 1024 ** 2

/** `null` where the file is converted, because what is absurd about it is never unpacked. */
type Bomb = readonly [bytes: Buffer, reason: string | null]

const insert = (bytes: Buffer, at: number, ...parts: Buffer[]) =>
  Buffer.concat([bytes.subarray(0, at), ...parts, bytes.subarray(at)])

const repeat = (times: number, make: (i: number) => Buffer) => Array.from({ length: times }, (_, i) => make(i))

/** An application segment of a JPEG. */
export const segment = (marker: number, ...parts: readonly (Buffer | string)[]): Buffer => {
  const data = Buffer.concat(parts.map((p) => (typeof p === 'string' ? Buffer.from(p, 'latin1') : p)))
  return Buffer.concat([Buffer.from([0xff, marker, (data.length + 2) >> 8, (data.length + 2) & 255]), data])
}

/** A JPEG with segments behind its first marker. */
export const withSegments = (jpeg: Buffer, ...segments: Buffer[]): Buffer => insert(jpeg, 2, ...segments)

/** A TIFF block whose entries all point at the same place: a long value, or their own directory. */
export function exifBomb(entries: number, type: number, count: number, tag = 0x9286): Buffer {
  const block = Buffer.alloc(65_000)
  block.write('II*\0', 'latin1')
  block.writeUInt32LE(8, 4)
  block.writeUInt16LE(entries, 8)
  const fitting = Math.min(entries, Math.floor((block.length - 14) / 12))
  for (let i = 0; i < fitting; i++) {
    block.writeUInt16LE(tag, 10 + 12 * i)
    block.writeUInt16LE(type, 12 + 12 * i)
    block.writeUInt32LE(count, 14 + 12 * i)
    block.writeUInt32LE(8, 18 + 12 * i)
  }
  block.writeUInt32LE(8, 10 + 12 * fitting)
  return block
}

/** Frames that all say the same: a few pixels in the corner of a canvas. */
export function gif(width: number, height: number, frames: number, frameSide = 1): Buffer {
  const head = Buffer.from('GIF89a\0\0\0\0\x80\0\0\0\0\0\xff\xff\xff', 'latin1')
  head.writeUInt16LE(width, 6)
  head.writeUInt16LE(height, 8)
  const frame = Buffer.from(',\0\0\0\0\0\0\0\0\0\x02\x02\x44\x01\0', 'latin1')
  frame.writeUInt16LE(frameSide, 5)
  frame.writeUInt16LE(frameSide, 7)
  return Buffer.concat([head, Buffer.alloc(frames * frame.length, frame), Buffer.from([0x3b])])
}

function riff(type: string, ...parts: Buffer[]): Buffer {
  const data = Buffer.concat(parts)
  const header = Buffer.alloc(8)
  header.write(type, 'latin1')
  header.writeUInt32LE(data.length, 4)
  return Buffer.concat([header, data, Buffer.alloc(data.length % 2)])
}

const u24 = (n: number) => Buffer.from([n & 255, (n >> 8) & 255, n >> 16])
const extended = (flags: number, width: number, height: number) =>
  riff('VP8X', Buffer.from([flags, 0, 0, 0]), u24(width - 1), u24(height - 1))

/** A WebP with an animation of one-pixel frames. */
function frames(count: number, pixel: Buffer, width: number, height: number): Buffer {
  const frame = riff('ANMF', u24(0), u24(0), u24(0), u24(0), u24(40), Buffer.from([0]), pixel.subarray(12))
  const parts = [extended(2, width, height), riff('ANIM', Buffer.alloc(6)), Buffer.alloc(count * frame.length, frame)]
  return riff('RIFF', Buffer.from('WEBP'), ...parts)
}

/** The last scan of a progressive JPEG again and again. */
function scans(jpeg: Buffer, times: number): Buffer {
  const last = jpeg.subarray(jpeg.lastIndexOf(Buffer.from([0xff, 0xda])), -2)
  return Buffer.concat([jpeg.subarray(0, -2), ...repeat(times, () => last), Buffer.from([0xff, 0xd9])])
}

/** Says in the container that the picture has 16 x 16 pixels. */
function claimingLittle(file: Buffer): Buffer {
  const copy = Buffer.from(file)
  for (let at = copy.indexOf('ispe'); at > 0; at = copy.indexOf('ispe', at + 4)) {
    copy.writeUInt32BE(16, at + 8)
    copy.writeUInt32BE(16, at + 12)
  }
  return copy
}

/** Its description of the picture is said to be this much longer. */
function claimingMuch(file: Buffer, bytes: number): Buffer {
  const meta = file.indexOf('meta') - 4
  const length = file.readUInt32BE(meta)
  const copy = insert(file, meta + length, Buffer.alloc(bytes))
  copy.writeUInt32BE(length + bytes, meta)
  return copy
}

/** A HEIC of items without pixels, whose places in the file all cover the same bytes. */
function items(type: string, count: number, { bytes, extents }: { bytes: number; extents: number }): Buffer {
  const entry = (i: number) => full('infe', 2, 0, u16(i + 1, 0), Buffer.from(`${i === 0 ? 'hvc1' : type}\0\0`))
  // A field of no bytes says 0.
  const extent = bytes === 0 ? Buffer.alloc(0) : u32(0, bytes)
  const place = (i: number) =>
    Buffer.concat([u16(i + 1, 0, extents), ...repeat(bytes === 0 ? 0 : extents, () => extent)])
  const meta = full(
    'meta',
    0,
    0,
    full('pitm', 0, 0, u16(1)),
    full('iinf', 0, 0, u16(count), ...repeat(count, entry)),
    full('iloc', 0, 0, Buffer.from([bytes === 0 ? 0 : 0x44, 0]), u16(count), ...repeat(count, place)),
    box('iprp', box('ipco', full('ispe', 0, 0, u32(64, 64))), full('ipma', 0, 0, u32(1), u16(1), Buffer.from([1, 1]))),
  )
  return Buffer.concat([box('ftyp', Buffer.from('heic\0\0\0\0mif1heic')), meta, box('mdat', Buffer.alloc(bytes))])
}

/** Small files that would cost a naive reader gigabytes or hours, and why each is refused. */
export async function imageBombs(): Promise<Record<string, Bomb>> {
  const picture = () => quarters(64, 48)
  const [png, jpeg, pixel] = await Promise.all([
    picture().png().toBuffer(),
    picture().jpeg().toBuffer(),
    quarters(1, 1).webp({ lossless: true }).toBuffer(),
  ])
  const small = await heic(png, { rows: 1, columns: 1 })
  const progressive = await quarters(800, 600).jpeg({ progressive: true }).toBuffer()
  const inflated = deflateSync(Buffer.alloc(100 * MIB), { level: 1 })
  const exif = (block: Buffer) => withSegments(jpeg, segment(0xe1, 'Exif\0\0', block))
  const large = () => sharp({ create: { width: 3000, height: 2000, channels: 3, background: '#963' } })
  const xmp = 'http://ns.adobe.com/xap/1.0/\0<x:xmpmeta xmlns:x="adobe:ns:meta/" xmpNote:HasExtendedXMP="0"/>'
  const more = (): Buffer =>
    segment(0xe1, `http://ns.adobe.com/xmp/extension/\0${'0'.repeat(32)}`, Buffer.alloc(65_000))
  const profile = (i: number) => segment(0xe2, 'ICC_PROFILE\0', Buffer.from([i + 1, 255]), Buffer.alloc(65_000, 1))
  return {
    'png-iccp': [insert(png, 33, chunk('iCCP', Buffer.concat([Buffer.from('icc\0\0'), inflated]))), null],
    'png-ztxt': [insert(png, 33, chunk('zTXt', Buffer.concat([Buffer.from('text\0\0'), inflated]))), null],
    'jpeg-scans': [scans(progressive, 5000), 'LimitExceeded'],
    'jpeg-few-scans': [scans(progressive, 50), 'CorruptInput'],
    'jpeg-icc': [withSegments(jpeg, ...repeat(255, profile)), null],
    'jpeg-xmp': [withSegments(jpeg, segment(0xe1, xmp), ...repeat(500, more)), null],
    'exif-cycle': [exif(exifBomb(3, 4, 1, 0x8769)), null],
    'exif-cycles': [exif(exifBomb(500, 4, 1, 0x8825)), null],
    'exif-entries': [exif(exifBomb(65_535, 1, 60_000)), null],
    'exif-entries-behind-two-headers': [
      exif(Buffer.concat([Buffer.from('Exif\0\0'), exifBomb(5000, 1, 60_000)])),
      null,
    ],
    'gif-frames': [gif(1, 1, 100_000), null],
    'gif-more-frames': [gif(1, 1, 1_000_001), 'LimitExceeded'],
    'gif-comments': [insert(gif(1, 1, 1), 19, Buffer.from('\x21\xfe\0'.repeat(999_000), 'latin1')), null],
    'gif-canvas': [gif(65_535, 65_535, 1), 'LimitExceeded'],
    'gif-wide-canvas': [gif(7600, 7600, 20_000), null],
    'gif-frame-beyond': [gif(16, 16, 1, 65_535), 'LimitExceeded'],
    'webp-icc': [
      riff('RIFF', Buffer.from('WEBP'), extended(32, 1, 1), riff('ICCP', Buffer.alloc(17 * MIB)), pixel.subarray(12)),
      'LimitExceeded',
    ],
    'webp-frames': [frames(100_000, pixel, 1, 1), 'LimitExceeded'],
    'webp-many-frames': [frames(5000, pixel, 1, 1), null],
    'webp-canvas': [frames(2, pixel, 16_384, 16_384), 'LimitExceeded'],
    'webp-two-sizes': [
      riff('RIFF', Buffer.from('WEBP'), extended(0, 1, 1), (await large().webp().toBuffer()).subarray(12)),
      'CorruptInput',
    ],
    'avif-two-sizes': [claimingLittle(await large().avif({ effort: 0 }).toBuffer()), 'CorruptInput'],
    'heic-meta': [claimingMuch(small, 65 * MIB), 'LimitExceeded'],
    'heic-places': [items('hvc1', 4000, { bytes: 0, extents: 8192 }), 'CorruptInput'],
    'heic-texts': [items('mime', 4000, { bytes: MIB, extents: 1 }), 'CorruptInput'],
    'heic-exif': [items('Exif', 2, { bytes: 20 * MIB, extents: 48 }), 'CorruptInput'],
    'heic-two-sizes': [claimingLittle(small), 'CorruptInput'],
  }
}
