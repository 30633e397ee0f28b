import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import sharp from 'sharp'
import t from 'tap'
import { readHeader } from '../../../jobs/images/read-header.ts'

/**
 * A decoder gets along with the memory that the header promises: the kernel refuses it more. Only private memory is
 * limited, so neither load nor the sizes of libraries matter. HEIC, AVIF and WebP are missing here; the benchmark of
 * images measures them.
 */

const run = promisify(execFile)
/** What vips needs for the smallest picture: mostly the stacks of its threads. */
const BASE = 48 * 1024 ** 2
const [WIDTH, HEIGHT] = [3600, 2400]

const folder = await mkdtemp(join(tmpdir(), 'keepsake-memory-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))

const noise = { type: 'gaussian', mean: 128, sigma: 30 } as const
const tile = await sharp({ create: { width: 400, height: 300, channels: 3, background: '#888', noise } })
  .png()
  .toBuffer()
const pixels = await sharp(tile).resize(WIDTH, HEIGHT, { kernel: 'nearest' }).raw().toBuffer()
const picture = () => sharp(pixels, { raw: { width: WIDTH, height: HEIGHT, channels: 3 } })
const png = await picture().png({ compressionLevel: 0 }).toBuffer()

const sources: Record<string, () => Promise<Buffer>> = {
  'baseline JPEG': () => picture().jpeg().toBuffer(),
  'progressive JPEG': () => picture().jpeg({ progressive: true, chromaSubsampling: '4:4:4' }).toBuffer(),
  PNG: async () => png,
  'interlaced PNG': () => picture().png({ progressive: true, compressionLevel: 1 }).toBuffer(),
  // To find 256 colors takes six seconds; a decoder needs as much for 16.
  GIF: () => picture().gif({ effort: 1, colours: 16, dither: 0 }).toBuffer(),
}

for (const [what, make] of Object.entries(sources)) {
  t.test(`${what}: vips decodes it in the memory that its header promises`, async (t) => {
    const path = join(folder, 'source')
    await writeFile(path, await make())
    const { memoryBytes } = await readHeader(path)
    const limit = `--data=${Math.ceil(memoryBytes + BASE)}`
    const decode = ['vips', 'thumbnail', 'source', 'out.v', '100000', '--height', '100000', '--no-rotate']
    // Without this the libvips of sharp, which this process has loaded, would tell vips where to look for decoders.
    const env = { PATH: process.env['PATH'], VIPS_CONCURRENCY: '1', MALLOC_ARENA_MAX: '1' }
    await t.resolves(run('prlimit', [limit, '--', ...decode, '--size', 'down'], { cwd: folder, env }))
  })
}
