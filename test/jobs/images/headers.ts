import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import t from 'tap'
import { parseExif } from '../../../jobs/images/exif.ts'
import { factsOf, orientationOf } from '../../../jobs/images/facts.ts'
import type { ImageHeader } from '../../../jobs/images/header.ts'
import { readPng } from '../../../jobs/images/png.ts'
import { mayShowOriginal } from '../../../jobs/images/policy.ts'
import { readHeader } from '../../../jobs/images/read-header.ts'
import { sniff } from '../../../jobs/images/sniff.ts'
import { PermanentError } from '../../../jobs/runtime/failure.ts'
import { boundariesOf } from '../../support/boundaries.ts'
import { exifBomb, segment, withSegments } from '../../support/image-bombs.ts'
import { blackPng, chunk, directory, heic, PHONE, quarters, tiff, tiffOf, u16, u32 } from '../../support/pictures.ts'
import { rgbProfile, withProfile } from '../../support/profiles.ts'

const MIB = 1024 ** 2

/** Takes over 20 s: thousands of broken files are written and read. */

const folder = await mkdtemp(join(tmpdir(), 'keepsake-headers-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))

async function headerOf(bytes: Buffer): Promise<ImageHeader> {
  const path = join(folder, 'picture')
  await writeFile(path, bytes)
  return readHeader(path)
}

/** `undefined` when the file is taken. */
const refusal = (bytes: Buffer): Promise<string | undefined> =>
  headerOf(bytes).then(
    () => undefined,
    (error: unknown) => (error instanceof PermanentError ? error.reason : String(error)),
  )

const picture = await quarters(120, 100).png().toBuffer()
const frames = { join: { animated: true } }
const samples: Record<string, Buffer> = {
  jpeg: await quarters(120, 100).withExif(PHONE).withIccProfile('p3').jpeg().toBuffer(),
  progressive: await quarters(120, 100).jpeg({ progressive: true }).toBuffer(),
  png: await quarters(120, 100).withExif(PHONE).png().toBuffer(),
  webp: await quarters(120, 100).withExif(PHONE).webp().toBuffer(),
  animatedWebp: await sharp([picture, await sharp(picture).negate().toBuffer()], frames)
    .webp()
    .toBuffer(),
  gif: await sharp([picture, await sharp(picture).negate().toBuffer()], frames)
    .gif()
    .toBuffer(),
  avif: await quarters(120, 100).withExif(PHONE).avif({ effort: 0 }).toBuffer(),
  heif: await heic(picture, { rows: 2, columns: 2, exif: await tiffOf(PHONE, 6), irot: 3, gainMap: true }),
}

/** Before the magic is complete, the format is unknown. */
const CUT = ['Truncated', 'CorruptInput', 'UnsupportedFormat']

t.test('a header says what the file is', async (t) => {
  for (const [name, bytes] of Object.entries(samples)) {
    const isStanding = name === 'heif'
    const size = isStanding ? { width: 100, height: 120 } : { width: 120, height: 100 }
    t.match(await headerOf(bytes), { ...size, isAnimated: ['gif', 'animatedWebp'].includes(name) }, name)
  }
  for (const name of ['jpeg', 'png', 'webp', 'avif', 'heif']) {
    t.match(parseExif((await headerOf(samples[name] ?? Buffer.alloc(0))).exif).image, { Make: 'Acme' }, name)
  }
})

t.test('a file cut off anywhere is refused', async (t) => {
  for (const [name, bytes] of Object.entries(samples)) {
    const step = Math.max(1, Math.floor(bytes.length / 400))
    const reasons = new Map<string | undefined, number>()
    for (let end = 0; end < bytes.length; end += step) {
      const reason = await refusal(bytes.subarray(0, end))
      reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
    }
    reasons.set(await refusal(bytes.subarray(0, -1)), 1)
    t.strictSame(
      [...reasons.keys()].filter((r) => !CUT.includes(r ?? '')),
      [],
      name,
    )
  }
})

t.test('a file cut off at a boundary of its parts, or one byte beside it, is refused', async (t) => {
  const formats: Record<string, string> = { progressive: 'jpeg', animatedWebp: 'webp', avif: 'heif' }
  for (const [name, bytes] of Object.entries(samples)) {
    const found = boundariesOf[formats[name] ?? name]?.(bytes) ?? []
    t.ok(found.length >= 4, `${name} has ${found.length} parts`)
    const ends = new Set(found.flatMap((at) => [at - 1, at, at + 1]))
    const accepted: unknown[] = []
    for (const end of ends) {
      if (end < 0 || end >= bytes.length) continue
      const reason = await refusal(bytes.subarray(0, end))
      if (!CUT.includes(reason ?? '')) accepted.push([end, reason])
    }
    t.strictSame(accepted, [], name)
  }
})

t.test('a file with any byte changed is read or refused, and never breaks the program', async (t) => {
  const known = ['Truncated', 'CorruptInput', 'UnsupportedFormat', 'LimitExceeded', undefined]
  for (const [name, bytes] of Object.entries(samples)) {
    const reasons = new Set<string | undefined>()
    for (let at = 0; at < Math.min(bytes.length, 1500); at += 3) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 0xff
      reasons.add(await refusal(changed))
    }
    t.strictSame(
      [...reasons].filter((r) => !known.includes(r)),
      [],
      name,
    )
  }
})

t.test('the format is what the first bytes say, whatever the rest says', (t) => {
  t.equal(sniff(Buffer.from('\xff\xd8\xff\xe0', 'latin1')), 'jpeg')
  t.equal(sniff(Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>')), undefined)
  t.equal(sniff(Buffer.from('\0\0\0\x1cftypmif1\0\0\0\0mif1heicmiaf', 'latin1')), 'heif')
  t.equal(sniff(Buffer.from('\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf', 'latin1')), 'avif')
  t.equal(sniff(Buffer.from('\0\0\0\x18ftypisom\0\0\0\0isommp42', 'latin1')), undefined)
  t.equal(sniff(Buffer.alloc(0)), undefined)
  t.end()
})

/** The first directory names another one by a number of an unusual type; that one would grow. */
function pointingBy(type: number): Buffer {
  const head = Buffer.alloc(136)
  head.write('II*\0\x08\0\0\0\x01\0', 'latin1')
  head.writeUInt16LE(0x8769, 10)
  head.writeUInt16LE(type, 12)
  head.writeUInt32LE(1, 14)
  // A rational lies elsewhere. Of the others, only the first one or two bytes of the field count.
  head.writeUInt32LE(type === 5 ? 128 : 0xff_0000 + 136, 18)
  head.writeUInt32LE(136 * 8192, 128)
  head.writeUInt32LE(8192, 132)
  return Buffer.concat([head, exifBomb(300, 3, 30_000).subarray(8)])
}

t.test('EXIF that would grow is not read', (t) => {
  t.equal(parseExif(exifBomb(5000, 1, 60_000)).isReadable, false)
  t.equal(parseExif(exifBomb(400, 3, 30_000)).isReadable, false)
  t.equal(parseExif(exifBomb(1, 4, 0xffff_ffff)).isReadable, false)
  const headers = (n: number) => Buffer.from('Exif\0\0'.repeat(n))
  const bomb = exifBomb(300, 3, 30_000)
  for (const n of [1, 2, 3]) t.equal(parseExif(Buffer.concat([headers(n), bomb])).isReadable, false, `${n} headers`)
  for (const type of [1, 3, 5, 8]) t.equal(parseExif(pointingBy(type)).isReadable, false, `a directory by type ${type}`)
  t.match(parseExif(exifBomb(3, 4, 1, 0x8769)), { isReadable: false }, 'a directory that names itself')
  t.match(parseExif(exifBomb(0, 1, 1)), { isReadable: false }, 'a chain that names itself')
  t.equal(parseExif(Buffer.from('no TIFF')).isReadable, false)
  t.equal(parseExif(null).isReadable, true)
  t.end()
})

t.test('a side is at most as long as the API can say', async (t) => {
  t.match(await headerOf(blackPng(16, 65_536)), { width: 16, height: 65_536 })
  t.equal(await refusal(blackPng(16, 65_537)), 'LimitExceeded')
  t.equal(await refusal(blackPng(65_537, 16)), 'LimitExceeded')
})

t.test('the HEIF of a camera with 10 bits may have half of its colors, and not all of them', async (t) => {
  const claims = { width: 7008, height: 4672 }
  const file = await heic(picture, { rows: 2, columns: 2, tenBit: true, claims })
  const chroma = file.indexOf('hvcC') + 4 + 16
  for (const [format, name, reason] of [
    [1, '4:2:0', undefined],
    [2, '4:2:2', undefined],
    [3, '4:4:4', 'LimitExceeded'],
  ] as const) {
    file[chroma] = ((file[chroma] ?? 0) & ~3) | format
    t.equal(await refusal(file), reason, name)
  }
})

t.test('stray bytes between the segments of a JPEG are skipped, and the original is not shown', async (t) => {
  const plain = await quarters(40, 30).jpeg().toBuffer()
  const second = 4 + plain.readUInt16BE(4)
  const strayAt = (at: number, bytes: Buffer) => Buffer.concat([plain.subarray(0, at), bytes, plain.subarray(at)])
  const frame = plain.indexOf(Buffer.from([0xff, 0xc0]))
  const size = { width: 40, height: 30 }
  for (const at of [second, frame]) {
    t.match(await headerOf(strayAt(at, Buffer.from([0, 0, 0]))), { ...size, isPlain: false }, `zeros at ${at}`)
    t.match(await headerOf(strayAt(at, Buffer.from([0, 0xff, 0, 0xff]))), { ...size, isPlain: false }, `0xff at ${at}`)
    t.match(await headerOf(strayAt(at, Buffer.from([0xff, 0xff]))), { ...size, isPlain: true }, `fill bytes at ${at}`)
    t.equal(await refusal(strayAt(at, Buffer.alloc(100_000))), 'CorruptInput', `too many at ${at}`)
  }
})

t.test('a GIF whose first frame is whole is read, with what decoders skip between its blocks', async (t) => {
  const end = Buffer.from([0x3b])
  const one = (await quarters(120, 100).gif().toBuffer()).subarray(0, -1)
  const two = (samples['gif'] ?? one).subarray(0, -1)
  const empty = Buffer.from([0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 0])
  const size = { width: 120, height: 100 }
  for (const [name, frames, isAnimated] of [
    ['one frame', one, false],
    ['two frames', two, true],
  ] as const) {
    const ended = (...more: Buffer[]) => Buffer.concat([frames, ...more, end])
    t.match(await headerOf(ended(empty)), { ...size, isAnimated, isPlain: true }, `${name} and an empty one`)
    t.match(await headerOf(ended(Buffer.alloc(2))), { ...size, isAnimated, isPlain: false }, `${name} that end twice`)
    t.equal(await refusal(ended(Buffer.alloc(17))), 'CorruptInput', `a gap after ${name}`)
    for (const more of [empty, Buffer.alloc(2)]) {
      t.equal(await refusal(Buffer.concat([frames, more])), 'Truncated', `${name}, cut off`)
    }
    const zeros = Buffer.from(ended()).fill(0, one.length - 40)
    t.ok(CUT.includes((await refusal(zeros)) ?? ''), `${name} with zeros for the rest`)
  }
  const stray = Buffer.from('no block')
  t.match(await headerOf(Buffer.concat([two, stray])), { ...size, isAnimated: true, isPlain: false })
  t.equal(await refusal(Buffer.concat([one, stray])), 'CorruptInput', 'the first frame may lack its end')
  t.equal(
    await refusal(Buffer.concat([Buffer.from('GIF89a\x01\0\x01\0\0\0\0', 'latin1'), empty, end])),
    'CorruptInput',
    'an empty frame alone',
  )
})

t.test('the original is shown only where it says nothing', async (t) => {
  const upright = { orientation: 1, isReadable: true, names: ['Make', 'ExifTag', 'FNumber'] }
  const shown = async (bytes: Buffer, exif = upright) => mayShowOriginal(await headerOf(bytes), exif)
  const plain = await quarters(20, 20).jpeg().toBuffer()
  t.equal(await shown(plain), true)
  t.equal(await shown(await quarters(20, 20).withIccProfile('srgb').jpeg().toBuffer()), true)
  t.equal(await shown(await quarters(20, 20).withIccProfile('p3').jpeg().toBuffer()), false)
  for (const [name, profile, expected] of [
    ['primaries of sRGB by another name', rgbProfile('srgb', 'c2'), true],
    ['a wide gamut', rgbProfile('p3', 'DCI-P3 D65 Gamut with sRGB Transfer'), false],
    ['another curve', rgbProfile('srgb', 'sRGB', 1.8), false],
    ['no primaries', rgbProfile('srgb', 'sRGB').fill('x', 128), false],
    ['a profile cut off', rgbProfile('srgb', 'sRGB').subarray(0, 300), false],
  ] as const) {
    t.equal(await shown(withProfile(plain, profile)), expected, name)
  }
  t.equal(await shown(plain, { ...upright, orientation: 3 }), false)
  for (const name of ['GPSTag', 'GPSLatitude', 'MakerNote', 'UserComment', 'ImageDescription', 'XMLPacket', '59932']) {
    t.equal(await shown(plain, { ...upright, names: [...upright.names, name] }), false, name)
  }
  t.equal(await shown(plain, { ...upright, isReadable: false }), false)
  const xmp = (text: string) => quarters(20, 20).withXmp(`<x:xmpmeta xmlns:x="adobe:ns:meta/">${text}</x:xmpmeta>`)
  t.equal(await shown(await xmp('<xmp:Rating>5</xmp:Rating>').jpeg().toBuffer()), true)
  t.equal(await shown(await xmp('<photoshop:City>Bonn</photoshop:City>').jpeg().toBuffer()), false)
  t.equal(await shown(await xmp('<exif:GPSLatitude>48,8N</exif:GPSLatitude>').webp().toBuffer()), false)
  const iptc = Buffer.concat([
    plain.subarray(0, 2),
    Buffer.from('\xff\xed\0\x10Photoshop 3.0\0', 'latin1'),
    plain.subarray(2),
  ])
  t.equal(await shown(iptc), false, 'IPTC')
  t.equal(await shown(Buffer.concat([plain, plain])), false, 'a second picture behind the first')
  const png = await quarters(20, 20).png().toBuffer()
  const text = Buffer.concat([png.subarray(0, 33), chunk('tEXt', Buffer.from('Comment\0at home')), png.subarray(33)])
  t.strictSame([await shown(png), await shown(text)], [true, false], 'a text in a PNG')
  t.equal(await shown(samples['heif'] ?? plain), false, 'no browser shows it')
  const inHdr = { ...(await headerOf(await quarters(20, 20).avif({ effort: 0 }).toBuffer())), declaredProfile: plain }
  t.equal(mayShowOriginal(inHdr, upright), false, 'HDR')
})

t.test('one value that reaches beyond its block hides the original, and the rest of the EXIF is read', async (t) => {
  const plain = await quarters(40, 30).jpeg().toBuffer()
  const tiff = await tiffOf(PHONE, 6)
  for (const [name, tag, type] of [
    ['Make', 0x010f, 2],
    ['BodySerialNumber', 0xa431, 2],
    ['LensModel', 0xa434, 7],
    ['FNumber', 0x829d, 5],
  ] as const) {
    const cut = Buffer.from(tiff)
    const entry = cut.indexOf(u16(tag).swap16(), 8)
    cut.writeUInt16LE(type, entry + 2)
    cut.writeUInt32LE(100_000, entry + 4)
    const header = await headerOf(withSegments(plain, segment(0xe1, 'Exif\0\0', cut)))
    const exif = parseExif(header.exif)
    t.equal(exif.isReadable, false, name)
    t.equal(orientationOf(exif), 6, name)
    const facts = factsOf(exif)
    t.match(facts, { capturedAt: '2024-05-17T12:20:30+02:00', location: { latitude: 48.1351 } }, name)
    t.equal(facts.camera.model, 'Phone 3', name)
  }
  const pointer = parseExif(pointingBy(8))
  t.match(pointer, { isReadable: false, image: { ExifTag: null } }, 'an address of another type is not followed')
})

/** As the conversion decides it, from the bytes alone. */
async function isShown(bytes: Buffer): Promise<boolean> {
  const header = await headerOf(bytes)
  const exif = parseExif(header.exif)
  return mayShowOriginal(header, { ...exif, orientation: orientationOf(exif) })
}

const [ISO, SERIAL] = [directory([[0x8827, 3, 1, 100 << 16]]), directory([[0xa431, 2, 4, 0x41424300]])]
/** Without its end, so that it claims one entry more than there are. */
const UNENDED = Buffer.concat([u16(2), directory([[0x8825, 4, 1, 8]]).subarray(2, 14)])
const TO_EXIF = [0x8769, 4, 1, 26] as const

/** Without the address of a next directory, as some programs write those of EXIF: the exposure time is 20/1000 s. */
const AT_ONCE = [directory([TO_EXIF]), directory([[0x829a, 5, 1, 40]]).subarray(0, 14), u32(20, 1000)]

/** EXIF of which some readers read more than others. */
const LEFT_OUT: Readonly<Record<string, Buffer>> = {
  'a first directory that is cut off, behind the one of GPS': tiff([SERIAL, UNENDED], 26),
  'a directory that claims too many entries': tiff([directory([TO_EXIF]), u16(100), SERIAL.subarray(2)]),
  'a directory without an entry that is whole': tiff([directory([TO_EXIF]), SERIAL.subarray(0, 8)]),
  'a directory behind the block': tiff([directory([[0x8769, 4, 1, 40_000]])]),
  'a directory by the type of directories': tiff([directory([[0x8769, 13, 1, 26]]), SERIAL]),
  'two addresses of a directory': tiff([directory([[0x8769, 4, 2, 26]]), SERIAL]),
  'no address of a directory': tiff([directory([[0x8769, 4, 0, 26]]), SERIAL]),
  'two directories of EXIF': tiff([
    directory([
      [0x8769, 4, 1, 38],
      [0x8769, 4, 1, 56],
    ]),
    SERIAL,
    ISO,
  ]),
  'a third directory in the chain': tiff([
    directory([], 14),
    directory([], 20),
    directory([[0xc62f, 2, 4, 0x41424300]]),
  ]),
  'a directory in place of one that is named twice': tiff([
    directory([[0x8769, 4, 1, 26]], 26),
    directory([[0x8827, 3, 1, 100 << 16]], 44),
    SERIAL,
  ]),
  'a directory behind that of EXIF': tiff([
    directory([TO_EXIF]),
    directory([[0x8827, 3, 1, 100 << 16]], 44),
    directory([[0x8825, 4, 1, 8]]),
  ]),
  'a value that ends behind the block': tiff([directory([[0x8769, 4, 1, 26]]), directory([[0x829d, 5, 1, 38]])]),
}

t.test('an original is not shown for anything in which a place may hide', async (t) => {
  const plain = await quarters(40, 30).jpeg().toBuffer()
  const video = Buffer.from('\0\0\0\x18ftypmp42\0\0\0\0mp42isom\0\0\0\x10moov+48.1-11.5/', 'latin1')
  const exif = (tiff: Buffer) => segment(0xe1, 'Exif\0\0', tiff)
  const silent = await tiffOf({
    IFD0: { Make: 'Acme' },
    IFD2: { FNumber: '18/10', DateTimeOriginal: '2024:05:17 12:20:30' },
  })
  const png = await quarters(40, 30).png().toBuffer()
  const webp = await quarters(40, 30).webp().toBuffer()
  const gif = await quarters(40, 30).gif().toBuffer()
  const comment = (text: string) =>
    Buffer.concat([gif.subarray(0, -1), Buffer.from([0x21, 0xfe, text.length]), Buffer.from(`${text}\0;`)])
  const avif = await quarters(40, 30).avif({ effort: 0 }).toBuffer()
  const movie = segment(
    0xe1,
    'http://ns.adobe.com/xap/1.0/\0<x:xmpmeta GCamera:MicroVideo="1" xmlns:x="adobe:ns:meta/"/>',
  )
  const scans = await quarters(40, 30).jpeg({ progressive: true }).toBuffer()
  const between = scans.lastIndexOf(Buffer.from([0xff, 0xda]))
  const note = segment(0xe1, 'http://ns.adobe.com/xap/1.0/\0<exif:GPSLatitude>48,8N</exif:GPSLatitude>')
  const rows: Record<string, [Buffer, boolean]> = {
    'a plain JPEG': [plain, true],
    'a plain progressive JPEG': [scans, true],
    'EXIF of the camera alone': [withSegments(plain, exif(silent)), true],
    'a plain PNG': [png, true],
    'a plain WebP': [webp, true],
    'a plain GIF': [gif, true],
    'a GIF with the name of its program': [comment('Made with a paint program'), true],
    'a plain AVIF': [avif, true],
    'EXIF with GPS': [withSegments(plain, exif(await tiffOf(PHONE))), false],
    'a maker note': [withSegments(plain, exif(exifBomb(1, 7, 30, 0x927c))), false],
    'a comment in EXIF': [withSegments(plain, exif(exifBomb(1, 7, 30, 0x9286))), false],
    'a title in EXIF': [withSegments(plain, exif(exifBomb(1, 2, 30, 0x010e))), false],
    'a tag that nobody knows': [withSegments(plain, exif(exifBomb(1, 7, 30, 0xea1c))), false],
    'a directory of EXIF': [withSegments(plain, exif(tiff([directory([TO_EXIF]), ISO]))), true],
    'a directory of EXIF that its values follow at once': [withSegments(plain, exif(tiff(AT_ONCE))), true],
    ...Object.fromEntries(
      Object.entries(LEFT_OUT).map(([what, block]) => [what, [withSegments(plain, exif(block)), false]]),
    ),
    'a directory of EXIF too far away to be read': [
      Buffer.concat([
        png.subarray(0, 33),
        chunk('eXIf', tiff([directory([[0x8769, 4, 1, MIB]]), Buffer.alloc(MIB - 26), SERIAL])),
        png.subarray(33),
      ]),
      false,
    ],
    'EXIF that cannot be read': [withSegments(plain, exif(exifBomb(65_535, 1, 60_000))), false],
    'a second EXIF behind a silent one': [withSegments(plain, exif(silent), exif(await tiffOf(PHONE))), false],
    'a second EXIF in a PNG': [
      Buffer.concat([png.subarray(0, 33), chunk('eXIf', silent), chunk('eXIf', silent), png.subarray(33)]),
      false,
    ],
    'the numbers of sRGB in a PNG': [
      Buffer.concat([png.subarray(0, 33), chunk('cICP', Buffer.from([1, 13, 0, 1])), png.subarray(33)]),
      true,
    ],
    'a text behind the numbers of colors in a PNG': [
      Buffer.concat([png.subarray(0, 33), chunk('cICP', Buffer.from('\x01\x0d\0\x01Bonn')), png.subarray(33)]),
      false,
    ],
    IPTC: [
      withSegments(plain, segment(0xed, 'Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x09\x1c\x02\x5a\0\x04Bonn')),
      false,
    ],
    'a comment of JPEG': [withSegments(plain, segment(0xfe, 'at home in Bonn')), false],
    'pictures behind it (MPF)': [Buffer.concat([withSegments(plain, segment(0xe2, 'MPF\0II*\0')), plain]), false],
    'an index of pictures alone (MPF)': [withSegments(plain, segment(0xe2, 'MPF\0II*\0')), false],
    'a segment before the second scan': [
      Buffer.concat([scans.subarray(0, between), note, scans.subarray(between)]),
      false,
    ],
    'an APP0 of Canon (CIFF)': [withSegments(plain, segment(0xe0, 'II\x1a\0\0\0HEAPJPGM')), false],
    'a Motion Photo': [Buffer.concat([withSegments(plain, movie), video]), false],
    'a Motion Photo without XMP (Samsung)': [Buffer.concat([plain, video, Buffer.from('SEFHSEFT')]), false],
    'a video behind a PNG': [Buffer.concat([png, video]), false],
    'a video behind a WebP': [Buffer.concat([webp, video]), false],
    'a video behind a GIF': [Buffer.concat([gif, video]), false],
    'a video in a box of an AVIF': [Buffer.concat([avif, Buffer.from('\0\0\0\x10mpvd+48.1-11', 'latin1')]), false],
    'a place in a comment of GIF': [comment('GPS 48.1,-11.5'), false],
  }
  for (const [what, [bytes, expected]] of Object.entries(rows)) t.equal(await isShown(bytes), expected, what)
})

t.test('only the first profile of a PNG is unpacked', async (t) => {
  const profiles = Array.from({ length: 1000 }, () => chunk('iCCP', Buffer.from('icc\0\0packed')))
  const head = Buffer.concat([picture.subarray(0, 33), ...profiles, picture.subarray(33)])
  let unpacked = 0
  const header = readPng({ head, size: head.length }, (data) => {
    unpacked += 1
    return data
  })
  t.equal(unpacked, 1)
  t.match(header, { profile: Buffer.from('packed'), isPlain: false })
})
