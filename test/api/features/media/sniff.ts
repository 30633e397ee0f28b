import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { SNIFF_BYTES, sniff } from '../../../../api/features/media/sniff.ts'

const MiB = 1024 ** 2
/** What the files have at most. */
const MAX = 100 * MiB
const bytes = (text: string) => Buffer.from(text, 'latin1')
const box = (type: string, content = '') => {
  const size = Buffer.alloc(4)
  size.writeUInt32BE(8 + content.length)
  return Buffer.concat([size, bytes(type + content)])
}
/** The start of a box that is longer than what is looked at. */
const begun = (type: string, size: number) => {
  const head = Buffer.alloc(SNIFF_BYTES, 0xaa)
  head.writeUInt32BE(size)
  head.write(type, 4, 'latin1')
  return head
}
/** The same with a size of 64 bits. */
const begunLarge = (type: string, size: number) => {
  const head = begun(type, 1)
  head.writeBigUInt64BE(BigInt(size), 8)
  return head
}
const ftyp = (major: string, ...brands: string[]) => box('ftyp', `${major}\0\0\0\0${brands.join('')}`)
const ebml = (docType: string) =>
  Buffer.concat([
    bytes('\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\xf7\x81\x01\x42\xf2\x81\x04\x42\xf3\x81\x08\x42\x82'),
    Buffer.from([0x80 | docType.length]),
    bytes(docType),
    Buffer.alloc(20),
  ])

const KNOWN: [string, Buffer, string][] = [
  ['JPEG with JFIF', bytes('\xff\xd8\xff\xe0\0\x10JFIF\0'), 'image/jpeg'],
  ['JPEG with Exif', bytes('\xff\xd8\xff\xe1\x1f\xfeExif\0'), 'image/jpeg'],
  ['PNG', bytes('\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR'), 'image/png'],
  ['GIF', bytes('GIF89a\x01\0\x01\0'), 'image/gif'],
  ['old GIF', bytes('GIF87a\x01\0\x01\0'), 'image/gif'],
  ['WebP', bytes('RIFF\x24\0\0\0WEBPVP8 '), 'image/webp'],
  ['lossless WebP', bytes('RIFF\x24\0\0\0WEBPVP8L'), 'image/webp'],
  ['HEIC of an iPhone', ftyp('heic', 'mif1', 'MiHB', 'MiHE', 'MiPr', 'miaf', 'heic', 'tmap'), 'image/heic'],
  ['HEIC that begins with mif1', ftyp('mif1', 'mif1', 'heic'), 'image/heic'],
  ['HEIF of another codec', ftyp('mif1', 'mif1', 'miaf'), 'image/heif'],
  ['HEIC burst', ftyp('hevc', 'msf1', 'hevc'), 'image/heic-sequence'],
  ['AVIF', ftyp('avif', 'avif', 'mif1', 'miaf', 'MA1B'), 'image/avif'],
  ['AVIF that begins with mif1', ftyp('mif1', 'avif', 'mif1'), 'image/avif'],
  ['animated AVIF', ftyp('avis', 'avis', 'msf1', 'iso8'), 'image/avif'],
  ['MOV of an iPhone', ftyp('qt  ', 'qt  '), 'video/quicktime'],
  ['MP4 of an Android phone', ftyp('mp42', 'isom', 'mp42'), 'video/mp4'],
  ['MP4 of ffmpeg', ftyp('isom', 'isom', 'iso2', 'avc1', 'mp41'), 'video/mp4'],
  ['MP4 of a Sony camera', ftyp('XAVC', 'XAVC', 'mp42', 'iso2'), 'video/mp4'],
  ['M4V', ftyp('M4V ', 'M4V ', 'mp42'), 'video/x-m4v'],
  ['3GP', ftyp('3gp4', '3gp4', 'isom'), 'video/3gpp'],
  ['3G2', ftyp('3g2a', '3g2a'), 'video/3gpp2'],
  ['fragmented MP4', ftyp('iso5', 'iso5', 'iso6', 'mp41'), 'video/mp4'],
  ['unknown brand that says it is compatible', ftyp('abcd', 'isom'), 'video/mp4'],
  ['WebM', ebml('webm'), 'video/webm'],
  ['QuickTime before file types', Buffer.concat([box('wide'), box('mdat', 'xxxx')]), 'video/quicktime'],
  ['QuickTime that begins with its index', box('moov', '\0\0\0\x6cmvhd'), 'video/quicktime'],
  ['QuickTime that begins with its content', begun('mdat', MiB), 'video/quicktime'],
  ['QuickTime that begins with little content', Buffer.concat([box('mdat', 'xx'), box('moov')]), 'video/quicktime'],
  ['QuickTime that begins with content of a long size', begunLarge('mdat', MiB), 'video/quicktime'],
  ['QuickTime that begins with much free space', begun('free', MiB - 8), 'video/quicktime'],
  ['QuickTime whose content is all the rest', Buffer.concat([box('wide'), bytes('\0\0\0\0mdat')]), 'video/quicktime'],
]
for (const [name, head, mimeType] of KNOWN) {
  t.test(`${name} is ${mimeType}`, async (t) => {
    const kind = mimeType.split('/')[0]
    t.strictSame(sniff(head, MAX), { mimeType, kind })
    const more = Buffer.concat([head, Buffer.alloc(SNIFF_BYTES, 0xaa)]).subarray(0, SNIFF_BYTES)
    t.strictSame(sniff(more, MAX), { mimeType, kind }, 'with more behind')
  })
}

t.test('the documented containers of videos are those that are accepted', async (t) => {
  const text = await readFile(join(import.meta.dirname, '../../../../docs/media-limits.md'), 'utf8')
  const listed = /^\| containers[^|]*\| ([^|]*) \|/m.exec(text)?.[1]?.split(', ') ?? []
  const types: Record<string, string> = { MOV: 'quicktime', M4V: 'x-m4v', '3GP': '3gpp', '3G2': '3gpp2' }
  const documented = listed.map((name) => `video/${types[name] ?? name.toLowerCase()}`)
  const accepted = KNOWN.map(([, , mimeType]) => mimeType).filter((type) => type.startsWith('video/'))
  t.strictSame(documented.sort(), [...new Set(accepted)].sort())
})

t.test('the size of the whole file decides where it is known', async (t) => {
  const content = begun('mdat', 3 * 1024 * MiB)
  t.match(sniff(content, 3 * 1024 * MiB + 8), { mimeType: 'video/quicktime' })
  t.equal(sniff(content, 3 * 1024 * MiB + 7), undefined)
})

const REFUSED: [string, Buffer][] = [
  ['nothing', Buffer.alloc(0)],
  ['one byte', Buffer.from([0xff])],
  ['zeros', Buffer.alloc(SNIFF_BYTES)],
  ['a drawing', bytes('<svg xmlns="http://www.w3.org/2000/svg">')],
  ['a drawing behind a declaration', bytes('<?xml version="1.0"?><svg>')],
  ['a page', bytes('<!DOCTYPE html>')],
  ['a PDF', bytes('%PDF-1.7')],
  ['an archive', bytes('PK\x03\x04')],
  ['a gzip', bytes('\x1f\x8b\x08')],
  ['a RAR', bytes('Rar!\x1a\x07')],
  ['a playlist', bytes('#EXTM3U\n#EXT-X-VERSION:3')],
  ['a playlist with a mark in front', bytes('\xef\xbb\xbf#EXTM3U')],
  ['an ffconcat script', bytes('ffconcat version 1.0')],
  ['text with ftyp in it', bytes('Say ftyp isom to me')],
  ['text with free in it', bytes("I'm free as a bird and mdat")],
  ['text with mdat in it', Buffer.alloc(SNIFF_BYTES, 'the mdat box and the ')],
  ['text with skip in it', Buffer.alloc(SNIFF_BYTES, 'to\r\nskip and to free ')],
  ['content longer than the file', begun('mdat', MAX - 7)],
  ['content of a long size that is longer than the file', begunLarge('mdat', 2 ** 40)],
  ['content that is all of a file', Buffer.concat([box('mdat', 'x'.repeat(50))])],
  ['content without an end', begun('mdat', 0)],
  ['content before what is no box', Buffer.concat([box('mdat', 'xx'), box('html'), Buffer.alloc(SNIFF_BYTES)])],
  ['free space without an end', begun('free', 0)],
  ['free space that is most of a large file', begun('free', 32 * MiB)],
  ['a box longer than the file', bytes('\0\0\x0f\xffftypisom')],
  ['a box of nothing', bytes('\0\0\0\x08ftypisom')],
  ['music', ftyp('M4A ', 'M4A ', 'mp42', 'isom')],
  ['an audio book', ftyp('M4B ', 'isom')],
  ['JPEG 2000', ftyp('jp2 ', 'jp2 ')],
  ['a raw photo', ftyp('crx ', 'crx ', 'isom')],
  ['Matroska', ebml('matroska')],
  ['sound in RIFF', bytes('RIFF\x24\0\0\0WAVEfmt ')],
  ['AVI', bytes('RIFF\x24\0\0\0AVI LIST')],
  ['a bitmap', bytes('BM\x36\0\0\0')],
  ['TIFF', bytes('II*\0')],
  ['MP3', bytes('ID3\x03')],
  ['Ogg', bytes('OggS\0')],
  ['a program', bytes('\x7fELF')],
  ['PNG without a header', bytes('\x89PNG\r\n\x1a\n<svg>')],
]
for (const [name, head] of REFUSED) t.test(`${name} is not media`, async (t) => t.equal(sniff(head, MAX), undefined))

t.test('no first bytes make it throw', async (t) => {
  for (let length = 0; length < 64; length++) {
    for (const start of [
      '',
      '\0\0\0\x18ftyp',
      '\x1a\x45\xdf\xa3',
      'RIFF',
      '\0\0\0\x08wide',
      '\xff\xff\xff\xffwide',
      '\0\0\0\x01moov',
      '\0\0\0\x01mdat',
    ]) {
      t.doesNotThrow(() => sniff(Buffer.concat([bytes(start), Buffer.alloc(length, 0xff)]), MAX))
    }
  }
})
