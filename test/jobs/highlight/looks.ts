import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { clip, clipOf } from '../../support/clips.ts'
import { colorItem, PALETTE } from '../../support/highlight-clips.ts'
import { frameColors, runsOf } from '../../support/highlight-frames.ts'
import { highlightBench } from '../../support/highlight-run.ts'
import { heic, quarters } from '../../support/pictures.ts'

/** What is seen in a highlight: photos of all kinds, what surrounds an item, motion, and text. */

const run = promisify(execFile)

/** For each of the frames, the regions (as `crop` takes them) as their average colours. */
async function regionsOf(playlist: string, frames: readonly number[], crops: readonly string[]): Promise<number[][][]> {
  const select = `select='${frames.map((frame) => `eq(n,${frame})`).join('+')}'`
  const names = crops.map((_, k) => `[c${k}]`)
  const averages = crops.map((crop, k) => `[c${k}]crop=${crop},scale=1:1:flags=area,format=rgb24[a${k}]`)
  // Two pictures of one pixel make a picture of two.
  const row = crops.map((_, k) => `[a${k}]`).join('') + (crops.length > 1 ? `hstack=inputs=${crops.length}` : 'null')
  const graph = `${select},split=${crops.length}${names.join('')};${averages.join(';')};${row}`
  const { stdout } = await run(
    'ffmpeg',
    [
      ...['-nostdin', '-v', 'error', '-i', playlist, '-filter_complex', graph],
      ...['-fps_mode', 'passthrough', '-f', 'rawvideo', '-pix_fmt', 'rgb24', '-'],
    ],
    { encoding: 'buffer' },
  )
  const pixel = (k: number) => [...stdout.subarray(3 * k, 3 * k + 3)]
  return frames.map((_, f) => crops.map((_, c) => pixel(f * crops.length + c)))
}

/** The PSNR of two frames in dB: 99 when they are equal. */
async function likeness(playlist: string, one: number, two: number): Promise<number> {
  const only = (input: number, frame: number) => `[${input}]select=eq(n\\,${frame}),setpts=0`
  const { stderr } = await run('ffmpeg', [
    ...['-nostdin', '-i', playlist, '-i', playlist],
    ...['-lavfi', `${only(0, one)}[a];${only(1, two)}[b];[a][b]psnr`, '-f', 'null', '-'],
  ])
  return Number(/average:(\S+)/.exec(stderr)?.[1]?.replace('inf', '99'))
}

const flat = (r: number, g: number, b: number, width = 320, height = 180) =>
  quarters(width, height).composite([{ input: { create: { width, height, channels: 3, background: { r, g, b } } } }])

t.test('all renditions show the same in their own size: a photo that moves slowly', async (t) => {
  const bench = await highlightBench(t)
  const photo = await bench.imageOf(await quarters(1280, 720).png().toBuffer(), 'photo', 0.5)
  const { exit, output } = await bench.run([photo], { renditions: ['360p', '720p'] })
  t.equal(exit, 0, 'exits with 0', { output })
  const folder = await bench.checkout()
  const corners = ['0:0', 'iw/2:0', '0:ih/2', 'iw/2:ih/2'].map((at) => `iw/2:ih/2:${at}`)
  const seen: Record<string, number[][]> = {}
  for (const [name, size] of Object.entries({ '360p': '640,360,1:1', '720p': '1280,720,1:1' })) {
    const playlist = join(folder, `${name}.m3u8`)
    const shown = ['-select_streams', 'v', '-show_entries', 'stream=width,height,sample_aspect_ratio', '-of', 'csv=p=0']
    t.equal((await run('ffprobe', ['-v', 'error', ...shown, playlist])).stdout.trim().split('\n')[0], size, name)
    seen[name] = (await regionsOf(playlist, [5], corners))[0] ?? []
  }
  t.equal(new Set(seen['720p']?.map(String)).size, 4, 'four colours')
  const alike = await likeness(join(folder, '360p.m3u8'), 0, 14)
  t.ok(alike < 30, `PSNR of the last frame to the first: ${alike} dB`)
  const apart = seen['360p']?.flat().map((value, k) => Math.abs(value - (seen['720p']?.flat()[k] ?? 0))) ?? []
  t.ok(Math.max(...apart) < 8, `at most ${Math.max(...apart)} apart`)
})

t.test('what surrounds an item is black, or the item itself blurred and darker', async (t) => {
  const bench = await highlightBench(t)
  const photo = await bench.imageOf(await flat(200, 30, 30, 180, 320).png().toBuffer(), 'photo', 0.5)
  const tall = ['-f', 'lavfi', '-i', 'color=0xc81e1e:s=90x160:r=30:d=0.5', '-c:v', 'libx264', '-pix_fmt', 'yuv420p']
  const items = [photo, await bench.videoOf(await clipOf(tall), 'video')]
  for (const fill of ['black', 'blur'] as const) {
    const outputPrefix = `org/o/highlights/${fill}/v1/`
    const spec = { orientation: 'landscape' as const, fill, kenBurns: false, outputPrefix }
    const { exit, output } = await bench.run(items, spec)
    t.equal(exit, 0, 'exits with 0', { output })
    const { hls } = await bench.manifest(outputPrefix)
    const playlist = join(await bench.checkout(outputPrefix), hls.renditions[0]?.playlist ?? '')
    const shown = await regionsOf(playlist, [5, 20], ['iw/8:ih/2:0:ih/4', 'iw/8:ih/2:iw*7/16:ih/4'])
    for (const [k, [[r = 0] = [], [middle = 0] = []]] of shown.entries()) {
      t.ok(fill === 'black' ? r < 12 : r > 100 && r < 180, `${fill}: red of ${r} in item ${k}`)
      t.ok(Math.abs(middle - 200) < 16, `red of ${middle} in the middle`)
    }
  }
})

t.test('photos do not move where that is switched off', async (t) => {
  const bench = await highlightBench(t)
  const photo = await bench.imageOf(await quarters(640, 360).png().toBuffer(), 'photo', 0.5)
  t.equal((await bench.run([photo], { kenBurns: false })).exit, 0)
  const alike = await likeness(join(await bench.checkout(), '360p.m3u8'), 0, 14)
  t.ok(alike > 36, `PSNR of the last frame to the first: ${alike} dB`)
})

t.test('a video is shown whole where its pictures change their size', async (t) => {
  const bench = await highlightBench(t)
  const { exit, output } = await bench.run([await bench.videoOf(await clip('resized'), 'resized', 3)], {
    showTitle: false,
  })
  t.equal(exit, 0, 'exits with 0', { output })
  t.match(await bench.manifest(), { items: [{ seconds: 3 }] })
  const playlist = join(await bench.checkout(), '180p.m3u8')
  t.equal((await frameColors(playlist)).length, 90)
  const shown = await regionsOf(playlist, [15, 45, 75], ['iw/5:ih:0:0', 'iw/10:ih:iw*9/20:0'])
  const isBlack = (region: number[] | undefined) => Math.max(...(region ?? [])) < 8
  t.strictSame(
    shown.map(([side, middle]) => [isBlack(side), isBlack(middle)]),
    [
      [false, false],
      [true, false],
      [false, false],
    ],
    'a standing picture keeps its shape',
  )
})

t.test('so is one that is turned as well', async (t) => {
  const bench = await highlightBench(t)
  const items = [await bench.videoOf(await clip('resizedTurned'), 'turned', 3)]
  const { exit, output } = await bench.run(items, { showTitle: false })
  t.equal(exit, 0, 'exits with 0', { output })
  t.match(await bench.manifest(), { items: [{ seconds: 3 }] })
  t.equal((await frameColors(join(await bench.checkout(), '180p.m3u8'))).length, 90)
})

t.test('the title is over the first seconds only, and a caption over its item', async (t) => {
  const bench = await highlightBench(t)
  const [red, blue] = [await colorItem(bench, 'red', { seconds: 4.4 }), await colorItem(bench, 'blue')]
  const { exit, output } = await bench.run([red, { ...blue, caption: "%{pts} \\ ' 夏 🌞" }], {
    title: "It's [summer];,:",
  })
  t.equal(exit, 0, 'exits with 0', { output })
  const playlist = join(await bench.checkout(), '180p.m3u8')
  const [middle, bottom, corner] = ['iw/3:ih/8:iw/3:ih*7/16', 'iw/4:ih/10:iw*3/8:ih*17/20', 'iw/4:ih/10:0:0']
  const [during, after, last] = await regionsOf(playlist, [60, 125, 145], [middle, bottom, corner])
  const isWhite = (region: number[] | undefined) => (region?.[1] ?? 0) > 38
  t.ok(isWhite(during?.[0]), 'the title after two seconds')
  t.notOk(isWhite(after?.[0]), 'no title after the fourth second')
  t.notOk(isWhite(during?.[1]), 'no caption over the first item')
  t.equal(last?.length, 3)
  t.notSame(last?.[1], last?.[2], 'a caption')
})

t.test('photos of every kind are shown', async (t) => {
  const bench = await highlightBench(t)
  const [r, g, b] = PALETTE['green'] ?? [0, 0, 0]
  const pictures: Record<string, Buffer> = {
    jpeg: await flat(r, g, b).jpeg({ quality: 95 }).toBuffer(),
    png: await flat(r, g, b).png().toBuffer(),
    webp: await flat(r, g, b).webp({ quality: 95 }).toBuffer(),
    avif: await flat(r, g, b).avif({ quality: 90 }).toBuffer(),
    gif: await flat(r, g, b).gif().toBuffer(),
  }
  const items = []
  for (const [name, bytes] of Object.entries(pictures)) items.push(await bench.imageOf(bytes, name, 0.5))
  const four = await quarters(500, 380).png().toBuffer()
  items.push(await bench.imageOf(await heic(four), 'heic', 0.5))
  const { exit, output } = await bench.run(items)
  t.equal(exit, 0, 'exits with 0', { output })
  const { hls, items: shown } = await bench.manifest()
  t.equal(shown.length, 6)
  const frames = await frameColors(join(await bench.checkout(), hls.renditions[0]?.playlist ?? ''))
  t.equal(frames.length, 90)
  t.strictSame(runsOf(frames.slice(0, 75), PALETTE), [['green', 75]])
})

t.test('what phones, cameras and browsers record is shown', async (t) => {
  const bench = await highlightBench(t)
  const x264 = ['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p']
  const tff = ['-vf', 'interlace=scan=tff', '-flags', '+ildct+ilme']
  const interlaced = await clipOf(['-f', 'lavfi', '-i', 'testsrc2=s=320x180:r=50:d=0.5', ...tff, ...x264], 'mov')
  const large = await clipOf(['-f', 'lavfi', '-i', 'testsrc2=s=3840x2160:r=30:d=0.3', ...x264])
  const items = [await bench.videoOf(interlaced, 'interlaced'), await bench.videoOf(large, 'large')]
  for (const name of ['hdr', 'wide', 'recorded'] as const) {
    items.push(await bench.videoOf(await clip(name), name, 0.5))
  }
  items.push(await bench.videoOf(await clip('longSound'), 'longSound'))
  // A picture every five seconds: none lies between the fifth second and the end.
  items.push(await bench.videoOf(await clip('slides'), 'slides', 8))
  const { exit, output } = await bench.run(items, { transition: 'crossfade' })
  t.equal(exit, 0, 'exits with 0', { output })
  const manifest = await bench.manifest()
  t.equal(manifest.items.length, 7)
  const playlist = join(await bench.checkout(), '360p.m3u8')
  t.equal((await frameColors(playlist)).length, Math.round(manifest.hls.durationSec * 30))
  const entries = ['-show_entries', 'stream=pix_fmt,color_space,color_transfer,field_order,sample_aspect_ratio']
  const { stdout } = await run('ffprobe', [
    '-v',
    'error',
    ...entries,
    '-of',
    'csv=p=0',
    playlist.replace('.m3u8', '_00000.ts'),
  ])
  t.match(stdout, /^1:1,yuv420p,bt709,bt709,progressive/)
})
