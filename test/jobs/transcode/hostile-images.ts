import { execFile } from 'node:child_process'
import { access, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { deflateSync } from 'node:zlib'
import sharp from 'sharp'
import t from 'tap'
import { arrangement, blackPng, chunk, heic, quarters } from '../../support/pictures.ts'
import { transcodeBench } from '../../support/transcode-run.ts'
import { watchMemory } from '../../support/tree-memory.ts'

/** Images that want more than they may have. Takes over 20 s: the largest that are allowed are among them. */

const run = promisify(execFile)
const LIMIT = 'LimitExceeded'
const CORRUPT = 'CorruptInput'
const FORMAT = 'UnsupportedFormat'

/** A picture whose header claims another size than its data has. */
function claiming(jpeg: Buffer, width: number, height: number): Buffer {
  const copy = Buffer.from(jpeg)
  const frame = [0xc0, 0xc2].map((m) => copy.indexOf(Buffer.from([0xff, m]))).find((at) => at > 0) ?? 0
  copy.writeUInt16BE(height, frame + 5)
  copy.writeUInt16BE(width, frame + 7)
  return copy
}

function withProfileBomb(png: Buffer): Buffer {
  const bomb = Buffer.concat([Buffer.from('icc\0\0'), deflateSync(Buffer.alloc(300 * 1024 ** 2), { level: 1 })])
  return Buffer.concat([png.subarray(0, 33), chunk('iCCP', bomb), png.subarray(33)])
}

t.test('what is no image, too much, or broken is refused, and the others are converted', async (t) => {
  const bench = await transcodeBench(t)
  const jpeg = await quarters(200, 160).jpeg().toBuffer()
  const picture = await quarters(120, 100).png().toBuffer()
  const small = { rows: 2, columns: 2 }
  const svg = '<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/hostname"/></svg>'
  const bad: Record<string, [Buffer, string]> = {
    empty: [Buffer.alloc(0), CORRUPT],
    svg: [Buffer.from(svg), FORMAT],
    svgWithMagic: [Buffer.concat([Buffer.from([0xff, 0xd8, 0xff]), Buffer.from(svg)]), CORRUPT],
    pdf: [Buffer.from('%PDF-1.7\n%JPEG\n'), FORMAT],
    tiff: [await quarters(20, 20).tiff().toBuffer(), FORMAT],
    postscript: [Buffer.from('%!PS-Adobe-3.0\n'), FORMAT],
    video: [Buffer.from('\0\0\0\x18ftypisom\0\0\0\0isommp42', 'latin1'), FORMAT],
    flood: [blackPng(16_000, 16_000), LIMIT],
    interlaced: [blackPng(14_000, 14_000, 1), LIMIT],
    progressive: [claiming(await quarters(200, 160).jpeg({ progressive: true }).toBuffer(), 20_000, 10_900), LIMIT],
    claims: [claiming(jpeg, 65_000, 65_000), CORRUPT],
    claimsLess: [claiming(jpeg, 14_000, 14_000), CORRUPT],
    tiles: [await heic(picture, { ...small, claims: { rows: 256, columns: 256, tiles: 65_535 } }), LIMIT],
    fewTiles: [await heic(picture, { ...small, claims: { rows: 8, columns: 8 } }), CORRUPT],
    bigTiles: [await heic(picture, { ...small, claims: { rows: 64, columns: 64, tiles: 4096 } }), LIMIT],
    bigHeic: [await heic(picture, { ...small, claims: { width: 14_000, height: 14_000 } }), LIMIT],
    half: [jpeg.subarray(0, jpeg.length / 2), 'Truncated'],
  }
  const pictures = Object.fromEntries(Object.entries(bad).map(([id, [bytes]]) => [id, bytes]))
  const good = { polyglot: Buffer.concat([jpeg, Buffer.from(svg)]), profile: withProfileBomb(picture), jpeg }
  const inputs = await bench.imagesOf({ ...pictures, ...good })
  const { exit, result, output } = await bench.run(inputs)
  t.equal(exit, 12, output.slice(-2000))
  t.strictSame(Object.fromEntries(result?.outputs?.map((o) => [o.id, o.reason ?? o.state]) ?? []), {
    ...Object.fromEntries(Object.entries(bad).map(([id, [, reason]]) => [id, reason])),
    ...{ polyglot: 'Succeeded', profile: 'Succeeded', jpeg: 'Succeeded' },
  })
  for (const id of Object.keys(bad)) t.strictSame(await bench.keys(`${bench.prefix}${id}/`), [], id)
  t.ok((await bench.imageManifest('polyglot')).images.jpeg, 'what follows a picture is never shown')
  t.notMatch((await bench.bytes('image.jpg', `${bench.prefix}polyglot/`)).toString('latin1'), /svg/)
  t.strictSame(await bench.leftovers(), [])
})

/**
 * Files without the bytes of their picture after a share of them, but with a proper end. Not AVIF: to its decoder any
 * bytes are a picture.
 */
async function closedEarly(): Promise<Record<string, Buffer>> {
  const noise = { type: 'gaussian', mean: 128, sigma: 30 } as const
  const made = { create: { width: 400, height: 300, channels: 3, background: '#888', noise } } as const
  const picture = () => sharp(made)
  const [jpeg, progressive, png, webp, lossless, gif] = await Promise.all([
    picture().jpeg().toBuffer(),
    picture().jpeg({ progressive: true }).toBuffer(),
    picture().png().toBuffer(),
    picture().webp().toBuffer(),
    picture().webp({ lossless: true }).toBuffer(),
    picture().gif().toBuffer(),
  ])
  const grid = await heic(await picture().png().toBuffer(), { rows: 5, columns: 7 })
  const share = (bytes: Buffer) => bytes.subarray(0, Math.floor(bytes.length * 0.6))
  const riff = (bytes: Buffer) => {
    const cut = Buffer.from(share(bytes).subarray(0, Math.floor(bytes.length * 0.3) * 2))
    cut.writeUInt32LE(cut.length - 8, 4)
    cut.writeUInt32LE(cut.length - 20, 16)
    return cut
  }
  const idat = png.indexOf('IDAT')
  const data = png.subarray(idat + 4, idat + 4 + png.readUInt32BE(idat - 4))
  const blank = (bytes: Buffer) => Buffer.concat([share(bytes), Buffer.alloc(bytes.length - share(bytes).length)])
  return {
    jpeg: Buffer.concat([share(jpeg), Buffer.from([0xff, 0xd9])]),
    progressive: Buffer.concat([progressive.subarray(0, -400), Buffer.from([0xff, 0xd9])]),
    png: Buffer.concat([png.subarray(0, idat - 4), chunk('IDAT', share(data)), chunk('IEND', Buffer.alloc(0))]),
    webp: riff(webp),
    lossless: riff(lossless),
    gif: Buffer.concat([
      gif.subarray(0, gif.lastIndexOf(Buffer.from([0x2c, 0, 0, 0, 0])) + 11),
      Buffer.from([0, 0x3b]),
    ]),
    heic: blank(grid),
  }
}

t.test('a picture that ends early in a file that ends properly is refused', async (t) => {
  const bench = await transcodeBench(t)
  const files = await closedEarly()
  const { result } = await bench.run(await bench.imagesOf(files))
  t.strictSame(
    Object.fromEntries(result?.outputs?.map((o) => [o.id, o.reason ?? o.state]) ?? []),
    Object.fromEntries(Object.keys(files).map((id) => [id, CORRUPT])),
  )
  for (const id of Object.keys(files)) t.strictSame(await bench.keys(`${bench.prefix}${id}/`), [], id)
})

/**
 * The bytes that sharp makes of so many black pixels, from three rows of blocks: encoding them all costs seconds. The same
 * bytes come again for each row. `width` has to be a multiple of 32, as two blocks of 16 together end with a whole byte.
 */
async function blackJpeg(width: number, height: number): Promise<Buffer> {
  const rows = (count: number) =>
    sharp({ create: { width, height: 16 * count, channels: 3, background: 'black' } })
      .jpeg({ quality: 80 })
      .toBuffer()
  const [two, three] = [await rows(2), await rows(3)]
  const length = three.length - two.length
  const at = three.length - Math.floor(1.5 * length)
  const again = Array<Buffer>(Math.ceil(height / 16) - 3).fill(three.subarray(at, at + length))
  return claiming(Buffer.concat([three.subarray(0, at), ...again, three.subarray(at)]), width, height)
}

t.test('the largest baseline JPEG is turned within the limits of memory', async (t) => {
  const bench = await transcodeBench(t)
  const bytes = await blackJpeg(16_000, 12_500)
  const turned = await sharp(await quarters(16, 16).withMetadata({ orientation: 6 }).jpeg().toBuffer()).metadata()
  const exif = turned.exif ?? Buffer.alloc(0)
  const app1 = Buffer.concat([Buffer.from([0xff, 0xe1, (exif.length + 2) >> 8, (exif.length + 2) & 255]), exif])
  const inputs = await bench.imagesOf({
    upright: bytes,
    turned: Buffer.concat([bytes.subarray(0, 2), app1, bytes.subarray(2)]),
  })
  const job = bench.start(inputs)
  const peak = watchMemory(job.process.pid ?? 0, 20)
  const { exit, output } = await job.finished
  t.equal(exit, 0, output.slice(-2000))
  const { held } = peak()
  t.ok(held > 0 && held < 512 * 1024 ** 2, `${Math.round(held / 1024 ** 2)} MiB in all processes`)
  t.match((await bench.imageManifest('turned')).images.jpeg, { width: 12_500, height: 16_000 })
  t.equal((await bench.imageManifest('upright')).images.jpeg, null)
})

t.test('a machine without vips does not condemn the upload', async (t) => {
  const bench = await transcodeBench(t)
  const inputs = await bench.imagesOf({ a: await quarters(60, 40).jpeg().toBuffer() })
  const { exit, result } = await bench.run(inputs, {}, { PATH: join(bench.folder, 'nothing') })
  t.match({ exit, result }, { exit: 20, result: { reason: 'ToolMissing', message: /vips cannot be run/ } })
})

t.test('a vips without HEIF leaves the work to libheif in a thread', async (t) => {
  const bench = await transcodeBench(t)
  const bin = join(bench.folder, 'bin')
  await mkdir(bin)
  const { stdout } = await run('sh', ['-c', 'command -v vips'])
  const refuses =
    'if [ "$2" = source ]; then echo "VipsForeignLoad: \\"source\\" is not a known file format" >&2; exit 1; fi'
  await writeFile(join(bin, 'vips'), `#!/bin/sh\n${refuses}\nexec ${stdout.trim()} "$@"\n`, { mode: 0o755 })
  const p3 = (await sharp(await quarters(16, 16).withIccProfile('p3').jpeg().toBuffer()).metadata()).icc
  const picture = await quarters(500, 380).png().toBuffer()
  const turned = await heic(picture, { irot: 3, ...(p3 && { profile: p3 }) })
  const inputs = await bench.imagesOf({ a: turned, b: turned })
  const { exit, output } = await bench.run(inputs, {}, { PATH: `${bin}:${process.env['PATH']}` })
  t.equal(exit, 0, output)
  for (const id of ['a', 'b']) {
    t.match((await bench.imageManifest(id)).images.jpeg, { width: 380, height: 500 })
    t.strictSame(await arrangement(await bench.bytes('image.jpg', `${bench.prefix}${id}/`)), [2, 0, 3, 1])
  }
  const said = output.split('\n').filter((line) => line.includes('libheif-js does'))
  t.equal(said.length, 1, 'said once in a job')
  t.match(said[0], /"level":"warn".*not a known file format/)
  await t.resolves(access(join(bin, 'vips')))
})
