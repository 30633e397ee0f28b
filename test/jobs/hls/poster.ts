import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import sharp from 'sharp'
import t from 'tap'
import { clip } from '../../support/clips.ts'
import { transcodeBench } from '../../support/transcode-run.ts'

const run = promisify(execFile)

t.test('a video gets the pictures of a frame, upright and in ordinary colours', async (t) => {
  for (const name of ['upright', 'hdr', 'tiny'] as const) {
    const bench = await transcodeBench(t)
    const { exit, output } = await bench.run([await bench.inputOf(await clip(name))])
    t.equal(exit, 0, output)
    const { images, source } = await bench.manifest()
    const { width, height } = source
    t.match(images, { webp: { file: 'image.webp', width, height }, thumb: { file: 'thumb.webp' } }, name)
    t.ok((images?.placeholder.length ?? 0) > 10)
    for (const { file, width, height, bytes } of [images?.webp, images?.thumb].flatMap((i) => i ?? [])) {
      const picture = await bench.bytes(file)
      t.equal(picture.length, bytes)
      t.match(await sharp(picture).metadata(), { format: 'webp', width, height, exif: undefined }, `${name}: ${file}`)
      const { channels } = await sharp(picture).stats()
      t.ok(
        channels.every((c) => c.max - c.min > 50),
        `${name}: ${file} shows something`,
      )
    }
  }
})

t.test('a video that begins black gets a picture that is not', async (t) => {
  const bench = await transcodeBench(t)
  const path = join(bench.folder, 'black.mp4')
  const fade = 'testsrc2=s=320x180:r=10:d=4,drawbox=c=black:t=fill:enable=lt(t\\,0.3)'
  await run('ffmpeg', [
    '-v',
    'error',
    '-f',
    'lavfi',
    '-i',
    fade,
    '-c:v',
    'libx264',
    '-g',
    '5',
    '-pix_fmt',
    'yuv420p',
    path,
  ])
  t.equal((await bench.run([await bench.inputOf(path)])).exit, 0)
  const { channels } = await sharp(await bench.bytes('image.webp')).stats()
  t.ok(channels.some((c) => c.mean > 40))
})

t.test('a video whose picture cannot be made is a video still, and so is a motion', async (t) => {
  const bench = await transcodeBench(t)
  const bin = join(bench.folder, 'bin')
  await mkdir(bin)
  const { stdout } = await run('sh', ['-c', 'command -v ffmpeg'])
  const script = `#!/bin/sh\ncase "$*" in *thumbnail=*) echo broken >&2; exit 1 ;; esac\nexec ${stdout.trim()} "$@"\n`
  await writeFile(join(bin, 'ffmpeg'), script, { mode: 0o755 })
  const input = await bench.inputOf(await clip('tiny'))
  const path = { PATH: `${bin}${delimiter}${process.env['PATH']}` }
  const { exit, output } = await bench.run([{ ...input, type: 'motion' }], {}, path)
  t.equal(exit, 0, output)
  t.match(output, /the video gets no picture/)
  const manifest = await bench.manifest()
  t.equal(manifest.images, undefined)
  t.ok(manifest.hls.renditions.length > 0)
})
