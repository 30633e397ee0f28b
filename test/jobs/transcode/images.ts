import sharp from 'sharp'
import t, { type Test } from 'tap'
import { arrangement, heic, PHONE, quarters, tiffOf } from '../../support/pictures.ts'
import { transcodeBench } from '../../support/transcode-run.ts'

/** Conversions of images by the real program. Takes over 20 s: every one is encoded and decoded again for real. */

type Bench = Awaited<ReturnType<typeof transcodeBench>>

const FILES = ['image.webp', 'manifest.json', 'thumb.webp']
const WITH_JPEG = ['image.jpg', ...FILES]
/** Nothing of EXIF, XMP or GPS, by any name. */
const TRACES = /Exif|http:\/\/ns\.adobe|GPS|Acme|Phone 3|SERIAL|Secret/

async function derivatives(bench: Bench, id: string): Promise<Record<string, Buffer>> {
  const names = (await bench.keys(`${bench.prefix}${id}/`)).filter((name) => name !== 'manifest.json')
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await bench.bytes(name, `${bench.prefix}${id}/`)] as const)),
  )
}

async function convert(t: Test, pictures: Record<string, Buffer>): Promise<Bench> {
  const bench = await transcodeBench(t)
  // No ffmpeg is needed for an image, nor a GPU.
  const { exit, result, output } = await bench.run(await bench.imagesOf(pictures), { accelerator: 'auto' })
  t.equal(exit, 0, 'converted', { output, result })
  t.notOk(result?.accelerator)
  t.strictSame(await bench.leftovers(), [])
  return bench
}

t.test('every format gets its derivatives, and a JPEG where browsers cannot show the original', async (t) => {
  const plain = () => quarters(700, 500)
  const frames = await Promise.all([plain().png().toBuffer(), plain().negate().png().toBuffer()])
  const gif = await sharp(frames, { join: { animated: true } })
    .gif()
    .toBuffer()
  const bench = await convert(t, {
    jpeg: await plain().jpeg().toBuffer(),
    png: await plain().png().toBuffer(),
    webp: await plain().webp().toBuffer(),
    gif,
    avif: await plain().avif({ effort: 0 }).toBuffer(),
    heif: await heic(await quarters(500, 380).png().toBuffer()),
  })
  for (const format of ['jpeg', 'png', 'webp', 'gif', 'avif']) {
    const manifest = await bench.imageManifest(format)
    const isAnimated = format === 'gif'
    t.match(manifest, { type: 'image', source: { format, orientation: 1, isAnimated }, images: { jpeg: null } })
    t.strictSame((await bench.keys(`${bench.prefix}${format}/`)).sort(), FILES)
  }
  const { images, source } = await bench.imageManifest('heif')
  t.match(source, { format: 'heif', width: 500, height: 380, capturedAt: null, exif: {} })
  t.match(images, { jpeg: { file: 'image.jpg', width: 500, height: 380 }, thumb: { width: 500, height: 380 } })
  t.match((await bench.imageManifest('jpeg')).images, { webp: { width: 700 }, thumb: { width: 512, height: 366 } })
  t.strictSame((await bench.keys(`${bench.prefix}heif/`)).sort(), WITH_JPEG)
  for (const id of ['jpeg', 'png', 'webp', 'gif', 'avif', 'heif']) {
    for (const [name, bytes] of Object.entries(await derivatives(bench, id))) {
      t.strictSame(await arrangement(bytes), [0, 1, 2, 3], `${id}: ${name}`)
      const { size } = await bench.store.head(`${bench.prefix}${id}/${name}`).then((i) => i ?? { size: 0 })
      const { jpeg, webp, thumb } = (await bench.imageManifest(id)).images
      t.ok(
        [jpeg, webp, thumb].some((i) => i?.file === name && i.bytes === size),
        `the size of ${name} is right`,
      )
    }
  }
})

const IN_PNG = [1, 3, 5, 6, 7]
const IN_WEBP = [1, 2, 4, 6, 8]

t.test('EXIF turns a picture exactly once, in each of the eight ways', async (t) => {
  const sources: Record<string, Buffer> = {}
  for (let orientation = 1; orientation <= 8; orientation++) {
    const lying = () => quarters(96, 64).withMetadata({ orientation })
    sources[`jpeg-${orientation}`] = await lying().jpeg().toBuffer()
    // All but a JPEG are turned in the same way: each turn once, and those of a phone with both.
    if (IN_PNG.includes(orientation)) sources[`png-${orientation}`] = await lying().png().toBuffer()
    if (IN_WEBP.includes(orientation)) sources[`webp-${orientation}`] = await lying().webp().toBuffer()
  }
  const bench = await convert(t, sources)
  for (const [id, source] of Object.entries(sources)) {
    const reference = await sharp(source).autoOrient().png().toBuffer()
    const { width, height } = await sharp(reference).metadata()
    const manifest = await bench.imageManifest(id)
    t.match(manifest.source, { width, height, orientation: Number(id.at(-1)) }, id)
    t.equal(manifest.images.jpeg === null, id.endsWith('-1'), `${id}: a JPEG only where the original lies`)
    for (const [name, bytes] of Object.entries(await derivatives(bench, id))) {
      t.strictSame(await arrangement(bytes), await arrangement(reference), `${id}: ${name}`)
      t.match(await sharp(bytes).metadata(), { width, height }, `${id}: ${name}`)
      t.equal((await sharp(bytes).metadata()).orientation, undefined)
    }
  }
})

t.test('a HEIC is turned by irot, or else by EXIF, and never by both', async (t) => {
  const picture = await quarters(500, 380).png().toBuffer()
  const turned = await tiffOf(PHONE, 6)
  const sources: Record<string, Buffer> = {
    exif: await heic(picture, { exif: turned }),
    upright: await heic(picture, { exif: await tiffOf(PHONE, 1) }),
    mirrored: await heic(picture, { imir: 1, exif: await tiffOf(PHONE, 2) }),
  }
  for (const irot of [0, 1, 2, 3]) sources[`irot${irot}`] = await heic(picture, { irot, exif: turned })
  const bench = await convert(t, sources)
  const expected: Record<string, number[]> = {
    exif: [2, 0, 3, 1],
    upright: [0, 1, 2, 3],
    mirrored: [1, 0, 3, 2],
    irot0: [0, 1, 2, 3],
    irot1: [1, 3, 0, 2],
    irot2: [3, 2, 1, 0],
    irot3: [2, 0, 3, 1],
  }
  for (const [id, order] of Object.entries(expected)) {
    const { source, images } = await bench.imageManifest(id)
    const isStanding = ['exif', 'irot1', 'irot3'].includes(id)
    const size = isStanding ? { width: 380, height: 500 } : { width: 500, height: 380 }
    t.match(source, size, id)
    t.match(images.jpeg, size, id)
    for (const [name, bytes] of Object.entries(await derivatives(bench, id))) {
      t.strictSame(await arrangement(bytes), order, `${id}: ${name}`)
    }
  }
})

t.test('a HEIC of 10 bits, one in Display P3 and one with a gain map become ordinary sRGB', async (t) => {
  const picture = await quarters(500, 380).png().toBuffer()
  const p3 = (await sharp(await quarters(16, 16).withIccProfile('p3').jpeg().toBuffer()).metadata()).icc
  const grey = await sharp({ create: { width: 64, height: 64, channels: 3, background: { r: 200, g: 60, b: 60 } } })
    .png()
    .toBuffer()
  const one = { rows: 1, columns: 1 }
  const bench = await convert(t, {
    ten: await heic(picture, { tenBit: true }),
    map: await heic(picture, { gainMap: true }),
    srgb: await heic(grey, one),
    profile: await heic(grey, { ...one, ...(p3 && { profile: p3 }) }),
    nclx: await heic(grey, { ...one, primaries: 12 }),
    jpegP3: await sharp(grey).withIccProfile('p3').jpeg().toBuffer(),
  })
  for (const id of ['ten', 'map']) {
    for (const [name, bytes] of Object.entries(await derivatives(bench, id))) {
      t.strictSame(await arrangement(bytes), [0, 1, 2, 3], `${id}: ${name}`)
    }
  }
  const red = async (id: string, name: string) =>
    (await sharp((await derivatives(bench, id))[name]).stats()).channels[0]?.mean ?? 0
  for (const name of WITH_JPEG.filter((n) => n !== 'manifest.json')) {
    const base = await red('srgb', name)
    for (const id of ['profile', 'nclx']) t.ok((await red(id, name)) > base + 8, `${id}: ${name} is redder in sRGB`)
  }
  t.ok((await bench.imageManifest('jpegP3')).images.jpeg, 'a browser may not know Display P3')
  t.notOk((await sharp((await derivatives(bench, 'profile'))['image.jpg']).metadata()).icc)
})

t.test('no derivative holds what the phone wrote; the manifest has it', async (t) => {
  const picture = await quarters(500, 380).png().toBuffer()
  const owned = () => quarters(300, 200).withExif(PHONE)
  const xmp = '<x:xmpmeta xmlns:x="adobe:ns:meta/"><photoshop:City>Secret</photoshop:City></x:xmpmeta>'
  const bench = await convert(t, {
    jpeg: await owned().jpeg().toBuffer(),
    png: await owned().png().toBuffer(),
    webp: await owned().webp().toBuffer(),
    avif: await owned().avif({ effort: 0 }).toBuffer(),
    heif: await heic(picture, { irot: 3, exif: await tiffOf(PHONE, 6), gainMap: true }),
    xmp: await quarters(300, 200).withXmp(xmp).jpeg().toBuffer(),
    tail: Buffer.concat([await quarters(300, 200).jpeg().toBuffer(), Buffer.from('a video with GPS')]),
  })
  for (const id of ['jpeg', 'png', 'webp', 'avif', 'heif', 'xmp', 'tail']) {
    const made = await derivatives(bench, id)
    t.ok(made['image.jpg'], `${id}: the original names a place, so a JPEG is made`)
    for (const [name, bytes] of Object.entries(made)) {
      t.notMatch(bytes.toString('latin1'), TRACES, `${id}: ${name}`)
      const { exif, xmp, iptc, icc } = await sharp(bytes).metadata()
      t.strictSame([exif, xmp, iptc, icc], [undefined, undefined, undefined, undefined], `${id}: ${name}`)
    }
  }
  for (const id of ['jpeg', 'png', 'webp', 'avif', 'heif']) {
    const { source } = await bench.imageManifest(id)
    t.match(
      source,
      {
        capturedAt: '2024-05-17T12:20:30+02:00',
        camera: { make: 'Acme', model: 'Phone 3' },
        location: { latitude: 48.1351, longitude: -11.582 },
      },
      id,
    )
    t.strictSame(source.exif, { ExposureTime: '1/120', FNumber: 'f/1.8', LensModel: 'Acme 26mm' }, id)
  }
})

t.test('what was converted before is not converted again', async (t) => {
  const bench = await transcodeBench(t)
  const inputs = await bench.imagesOf({
    a: await quarters(60, 40).jpeg().toBuffer(),
    b: await quarters(60, 40).png().toBuffer(),
  })
  t.equal((await bench.run(inputs.slice(0, 1))).exit, 0)
  const before = await bench.bytes('manifest.json', `${bench.prefix}a/`)
  // Without its original, a second conversion could only fail.
  await bench.store.delete(inputs[0]?.sourceKey ?? '')
  const again = await bench.run(inputs)
  t.equal(again.exit, 0, again.output)
  t.strictSame(
    again.result?.outputs?.map((o) => o.state),
    ['Succeeded', 'Succeeded'],
  )
  t.strictSame(await bench.bytes('manifest.json', `${bench.prefix}a/`), before)
})
