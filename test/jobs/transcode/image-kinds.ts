import { deflateSync } from 'node:zlib'
import sharp, { type Sharp } from 'sharp'
import t from 'tap'
import { thumbHashToApproximateAspectRatio, thumbHashToRGBA } from 'thumbhash'
import { chunk, heic, PHONE, quarters, tiffOf } from '../../support/pictures.ts'
import { greyProfile, rgbProfile, withProfile } from '../../support/profiles.ts'
import { transcodeBench } from '../../support/transcode-run.ts'

/** Kinds of pixels and shapes, one job for all of them, and what people see of each. */

type Colour = readonly [red: number, green: number, blue: number]

interface Kind {
  source: Buffer
  width: number
  height: number
  /** In the middle of the left and of the right half, on white. */
  left: Colour
  right: Colour
  tolerance?: number
  /** Bytes of the original are shown; everything else gets a JPEG. */
  isShown?: boolean
}

const ORANGE: Colour = [220, 120, 40]
const TEAL: Colour = [30, 140, 150]
const WHITE: Colour = [255, 255, 255]
const [WIDTH, HEIGHT] = [80, 40]

/** The left half in one colour, the right half in another. Alpha 255 is opaque. */
function halves(left: readonly number[], right: readonly number[], width = WIDTH, height = HEIGHT): Sharp {
  const channels = left.length as 3 | 4
  const row = Buffer.concat(Array.from({ length: width }, (_, x) => Buffer.from(x * 2 < width ? left : right)))
  return sharp(Buffer.concat(Array.from({ length: height }, () => row)), { raw: { width, height, channels } })
}

/** Bytes behind the end forbid to show the original, so that a JPEG is made. */
const withTail = (file: Buffer) => Buffer.concat([file, Buffer.from('a video')])

const plain = () => halves(ORANGE, TEAL)
/** Nothing to see on the left, half of the colour on the right. */
const sheer = () => halves([...ORANGE, 0], [...TEAL, 128])
const SHEER = { left: WHITE, right: TEAL.map((c) => Math.round((c + 255) / 2)) as unknown as Colour }

/** From a gamma of 1.8 to about that of sRGB. */
const lighter = (colour: Colour) => colour.map((v) => Math.round(255 * (v / 255) ** (1.8 / 2.2))) as unknown as Colour

const DIM_RED: Colour = [150, 90, 60]
const DIM_BLUE: Colour = [40, 110, 130]

/** The light of a color, with the primaries of BT.2020 and white at 1. */
function lightOf(colour: Colour): number[] {
  const [r, g, b] = colour.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4))
  const rows = [
    [0.6274, 0.3293, 0.0433],
    [0.0691, 0.9195, 0.0114],
    [0.0164, 0.088, 0.8956],
  ] as const
  return rows.map((row) => row[0] * (r ?? 0) + row[1] * (g ?? 0) + row[2] * (b ?? 0))
}

/** How each transfer of ISO/IEC 23091-2 encodes light, with the white of ordinary pictures at 203 cd/m². */
const ENCODED: Readonly<Record<number, (light: number) => number>> = {
  13: (light) => (light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055),
  16: (light) => {
    const power = ((light * 203) / 10_000) ** 0.1593017578125
    return ((0.8359375 + 18.8515625 * power) / (1 + 18.6875 * power)) ** 78.84375
  },
  18: (light) => {
    const scene = (light * 0.203) ** (1 / 1.2)
    return scene <= 1 / 12 ? (3 * scene) ** 0.5 : 0.17883277 * Math.log(12 * scene - 0.28466892) + 0.55991073
  },
}

/** The numbers of dim colors in BT.2020. */
function in2020(transfer: number): Sharp {
  const numbers = (colour: Colour) =>
    lightOf(colour).map((light) => Math.round(255 * (ENCODED[transfer]?.(light) ?? 0)))
  return halves(numbers(DIM_RED), numbers(DIM_BLUE))
}

/** The PNG with chunks before its pixels. */
const withChunks = (png: Buffer, ...chunks: Buffer[]) =>
  Buffer.concat([png.subarray(0, 33), ...chunks, png.subarray(33)])

/** The numbers of ISO/IEC 23091-2 in a PNG: primaries, transfer, RGB, in full range. */
const cicp = (primaries: number, transfer: number) => chunk('cICP', Buffer.from([primaries, transfer, 0, 1]))

const iccp = (profile: Buffer) => chunk('iCCP', Buffer.concat([Buffer.from('icc\0\0'), deflateSync(profile)]))

/** A HEIC of 10 bits in the colors of BT.2020. */
async function heic2020(transfer: number): Promise<Buffer> {
  const picture = await in2020(transfer).png().toBuffer()
  return heic(picture, { rows: 1, columns: 1, tile: 128, tenBit: true, primaries: 9, transfer })
}

async function kinds(): Promise<Record<string, Kind>> {
  const size = { width: WIDTH, height: HEIGHT }
  const opaque = { ...size, left: ORANGE, right: TEAL }
  const transparent = { ...size, ...SHEER }
  const grey = { ...size, left: [90, 90, 90], right: [200, 200, 200] } as const
  const greys = () => halves(grey.left, grey.right).toColourspace('b-w')
  const p3 = () => plain().withIccProfile('p3')
  // Darker than what tone mapping changes.
  const dim = { ...size, left: DIM_RED, right: DIM_BLUE }
  const inP3 = { ...opaque, isShown: false }
  const png = await plain().png().toBuffer()
  const profile = (await sharp(await p3().png().toBuffer()).metadata()).icc
  // The numbers of a picture in Display P3, without a conversion: what a HEIC in P3 stores.
  const wide = await sharp(await p3().png().toBuffer(), { ignoreIcc: true })
    .png()
    .toBuffer()
  const wideJpeg = await sharp(wide).jpeg({ quality: 95 }).toBuffer()
  const jpeg = await plain().jpeg({ quality: 95 }).toBuffer()
  const segmentEnd = 4 + jpeg.readUInt16BE(4)
  const greyJpeg = await greys().jpeg({ quality: 95 }).toBuffer()
  const broken = rgbProfile('p3', 'Display P3')
  broken.fill('x', broken.indexOf('XYZ ', 300))
  const cutOff = rgbProfile('p3', 'Display P3')
  cutOff.writeUInt32BE(0x1000_0000, cutOff.indexOf('desc') + 8)
  const frames = await Promise.all([plain().png().toBuffer(), plain().negate().png().toBuffer()])
  const animated = () => sharp(frames, { join: { animated: true } })
  const one = { rows: 1, columns: 1 }
  const cmyk = await plain().toColourspace('cmyk').withIccProfile('cmyk').jpeg({ quality: 95 }).toBuffer()
  const thin = (width: number, height: number) => halves(TEAL, TEAL, width, height)
  return {
    'jpeg-grey': { source: await greys().jpeg().toBuffer(), ...grey, isShown: true },
    'jpeg-stray-bytes': {
      source: Buffer.concat([jpeg.subarray(0, segmentEnd), Buffer.alloc(3), jpeg.subarray(segmentEnd)]),
      ...opaque,
    },
    'jpeg-cmyk': { source: cmyk, ...opaque, tolerance: 30 },
    'jpeg-p3': { source: await p3().jpeg({ quality: 95 }).toBuffer(), ...inP3 },
    'jpeg-p3-named-srgb': {
      source: withProfile(wideJpeg, rgbProfile('p3', 'Display P3 Gamut with sRGB Transfer')),
      ...inP3,
    },
    'jpeg-p3-with-a-name-cut-off': { source: withProfile(wideJpeg, cutOff), ...inP3 },
    'jpeg-colors-with-grey-profile': { source: withProfile(jpeg, greyProfile(1.8)), ...opaque },
    'jpeg-colors-with-broken-profile': { source: withProfile(jpeg, broken), ...opaque },
    'jpeg-grey-with-profile-of-colors': { source: withProfile(greyJpeg, rgbProfile('adobe', 'Adobe RGB')), ...grey },
    'jpeg-grey-with-grey-profile': {
      source: withProfile(greyJpeg, greyProfile(1.8)),
      ...{ ...size, left: lighter(grey.left), right: lighter(grey.right) },
    },
    'png-p3': { source: await p3().png().toBuffer(), ...inP3 },
    'webp-p3': { source: await p3().webp({ lossless: true }).toBuffer(), ...inP3 },
    'heic-p3': { source: await heic(wide, { ...one, tile: 128, ...(profile && { profile }) }), ...inP3 },
    'heic-p3-nclx': { source: await heic(wide, { ...one, tile: 128, primaries: 12 }), ...inP3 },
    'heic-2020': { source: await heic2020(13), ...dim },
    'heic-2020-pq': { source: await heic2020(16), ...dim },
    'heic-2020-hlg': { source: await heic2020(18), ...dim },
    'heic-ten-bit': { source: await heic(png, { ...one, tile: 128, tenBit: true }), ...opaque },
    'png-p3-declared': { source: withChunks(wide, cicp(12, 13)), ...inP3 },
    'png-srgb-declared': { source: withChunks(png, cicp(1, 13)), ...opaque, isShown: true },
    'png-srgb-declared-with-profile': {
      source: withChunks(png, iccp(rgbProfile('p3', 'P3')), cicp(1, 13)),
      ...opaque,
      isShown: false,
    },
    'png-srgb-declared-with-profile-of-srgb': {
      source: withChunks(png, cicp(1, 13), iccp(rgbProfile('srgb', 'sRGB'))),
      ...opaque,
      isShown: true,
    },
    'png-p3-declared-as-unspecified': { source: withChunks(wide, iccp(rgbProfile('p3', 'P3')), cicp(2, 2)), ...inP3 },
    'png-declared-twice': { source: withChunks(png, cicp(1, 13), cicp(12, 13)), ...opaque, isShown: false },
    'png-2020': { source: withChunks(await in2020(13).png().toBuffer(), cicp(9, 13)), ...dim },
    'png-2020-pq': { source: withChunks(await in2020(16).png().toBuffer(), cicp(9, 16)), ...dim },
    'png-2020-hlg': { source: withChunks(await in2020(18).png().toBuffer(), cicp(9, 18)), ...dim },
    'png-2020-pq-16': {
      source: withChunks(await in2020(16).toColourspace('rgb16').png().toBuffer(), cicp(9, 16)),
      ...dim,
    },
    'png-2020-pq-with-profile-turned': {
      source: withChunks(
        await in2020(16).png().toBuffer(),
        cicp(9, 16),
        chunk('eXIf', await tiffOf({}, 3)),
        iccp(rgbProfile('p3', 'P3')),
      ),
      ...{ ...dim, left: DIM_BLUE, right: DIM_RED },
    },
    'png-grey-declared': {
      source: withChunks(await greys().png().toBuffer(), cicp(9, 16)),
      ...grey,
    },
    'png-16': { source: withTail(await plain().toColourspace('rgb16').png().toBuffer()), ...opaque },
    'png-16-shown': { source: await plain().toColourspace('rgb16').png().toBuffer(), ...opaque, isShown: true },
    'png-grey-16': { source: withTail(await greys().toColourspace('grey16').png().toBuffer()), ...grey },
    'png-palette': { source: withTail(await plain().png({ palette: true }).toBuffer()), ...opaque },
    'png-palette-alpha': { source: withTail(await sheer().png({ palette: true }).toBuffer()), ...transparent },
    'png-alpha': { source: withTail(await sheer().png().toBuffer()), ...transparent },
    'png-alpha-16': { source: withTail(await sheer().toColourspace('rgb16').png().toBuffer()), ...transparent },
    'png-alpha-turned': {
      source: await sheer().withMetadata({ orientation: 2 }).png().toBuffer(),
      ...size,
      left: SHEER.right,
      right: SHEER.left,
    },
    'webp-alpha': { source: withTail(await sheer().webp({ lossless: true }).toBuffer()), ...transparent },
    'avif-alpha': { source: await sheer().withExif(PHONE).avif({ effort: 0, quality: 90 }).toBuffer(), ...transparent },
    'webp-animated': { source: withTail(await animated().webp({ lossless: true }).toBuffer()), ...opaque },
    'gif-animated': { source: withTail(await animated().gif().toBuffer()), ...opaque },
    'gif-shown': { source: await animated().gif().toBuffer(), ...opaque, isShown: true },
    'jpeg-1x1': { source: withTail(await thin(1, 1).jpeg().toBuffer()), width: 1, height: 1, left: TEAL, right: TEAL },
    'png-1x1': { source: withTail(await thin(1, 1).png().toBuffer()), width: 1, height: 1, left: TEAL, right: TEAL },
    'webp-1x1': { source: withTail(await thin(1, 1).webp().toBuffer()), width: 1, height: 1, left: TEAL, right: TEAL },
    'gif-1x1': { source: withTail(await thin(1, 1).gif().toBuffer()), width: 1, height: 1, left: TEAL, right: TEAL },
    'jpeg-tall': {
      source: withTail(await thin(1, 20_000).jpeg().toBuffer()),
      width: 1,
      height: 20_000,
      left: TEAL,
      right: TEAL,
    },
    'png-wide': {
      source: withTail(await thin(20_000, 1).png().toBuffer()),
      width: 20_000,
      height: 1,
      left: TEAL,
      right: TEAL,
    },
    'png-taller-than-a-jpeg': {
      source: withTail(await thin(1, 65_536).png().toBuffer()),
      width: 1,
      height: 65_536,
      left: TEAL,
      right: TEAL,
    },
    'png-tall-turned': {
      source: await thin(1, 20_000).withMetadata({ orientation: 6 }).png().toBuffer(),
      width: 20_000,
      height: 1,
      left: TEAL,
      right: TEAL,
    },
  }
}

async function coloursOf(picture: Buffer): Promise<{ left: Colour; right: Colour }> {
  const { data, info } = await sharp(picture)
    .flatten({ background: '#fff' })
    .toColourspace('srgb')
    .raw()
    .toBuffer({ resolveWithObject: true })
  const at = (share: number) => {
    const i = (Math.floor(info.height / 2) * info.width + Math.floor(share * info.width)) * info.channels
    return [data[i], data[i + 1], data[i + 2]] as unknown as Colour
  }
  return { left: at(0.25), right: at(0.75) }
}

const distance = (a: Colour, b: Colour) => Math.max(...a.map((v, i) => Math.abs(v - (b[i] ?? 0))))
const fits = (size: { width: number; height: number }, side: number) => {
  const scale = Math.min(1, side / Math.max(size.width, size.height))
  return { width: Math.max(1, Math.round(size.width * scale)), height: Math.max(1, Math.round(size.height * scale)) }
}

t.test('every kind of pixels and every shape looks as it should', async (t) => {
  const bench = await transcodeBench(t)
  const all = await kinds()
  const inputs = await bench.imagesOf(Object.fromEntries(Object.entries(all).map(([id, { source }]) => [id, source])))
  const { exit, output, result } = await bench.run(inputs)
  t.equal(exit, 0, 'converted', { output: output.slice(-2000), outputs: result?.outputs?.filter((o) => o.reason) })
  for (const [id, kind] of Object.entries(all)) {
    const { width, height, left, right, tolerance = 8, isShown = false } = kind
    const { images, source } = await bench.imageManifest(id)
    t.match(source, { width, height }, id)
    t.equal(images.jpeg === null, isShown, `${id}: ${isShown ? 'shown as it is' : 'gets a JPEG'}`)
    for (const image of [images.jpeg, images.webp, images.thumb]) {
      if (!image) continue
      const picture = await bench.bytes(image.file, `${bench.prefix}${id}/`)
      const side = { 'image.webp': 2048, 'thumb.webp': 512 }[image.file] ?? 65_500
      const seen = await coloursOf(picture)
      t.match(
        await sharp(picture).metadata(),
        { ...fits(kind, side), space: /^(srgb|b-w)$/ },
        `${id}: size of ${image.file}`,
      )
      const off = Math.max(distance(seen.left, left), distance(seen.right, right))
      t.ok(off <= tolerance, `${id}: colours of ${image.file}`, { seen, left, right })
    }
  }
})

t.test('the placeholder has the shape of the upright picture', async (t) => {
  const bench = await transcodeBench(t)
  const picture = await quarters(400, 200).png().toBuffer()
  const lying = (orientation: number) => quarters(400, 200).withMetadata({ orientation }).jpeg().toBuffer()
  const inputs = await bench.imagesOf({
    lying: await lying(1),
    standing: await lying(6),
    mirrored: await lying(7),
    heic: await heic(picture, { rows: 4, columns: 7, irot: 3, exif: await tiffOf(PHONE, 6) }),
  })
  t.equal((await bench.run(inputs)).exit, 0)
  for (const [id, isWide] of Object.entries({ lying: true, standing: false, mirrored: false, heic: false })) {
    const { placeholder } = (await bench.imageManifest(id)).images
    t.equal(thumbHashToApproximateAspectRatio(Buffer.from(placeholder, 'base64')) > 1, isWide, id)
  }
})

t.test('the placeholder of a picture of a few pixels has the colour of the picture everywhere', async (t) => {
  const bench = await transcodeBench(t)
  const background = { r: ORANGE[0], g: ORANGE[1], b: ORANGE[2] }
  const sizes: Record<string, readonly [number, number]> = {
    dot: [1, 1],
    square: [3, 3],
    line: [4000, 1],
    column: [1, 300],
  }
  const files: Record<string, Buffer> = {}
  for (const [id, [width, height]] of Object.entries(sizes)) {
    files[id] = await sharp({ create: { width, height, channels: 3, background } })
      .png()
      .toBuffer()
  }
  t.equal((await bench.run(await bench.imagesOf(files))).exit, 0)
  for (const id of Object.keys(sizes)) {
    const { placeholder } = (await bench.imageManifest(id)).images
    const { rgba } = thumbHashToRGBA(Buffer.from(placeholder, 'base64'))
    const off = ORANGE.map((value, c) =>
      Math.max(...rgba.filter((_, i) => i % 4 === c).map((v) => Math.abs(v - value))),
    )
    t.ok(Math.max(...off) < 24, id, { off })
  }
})
