import { access, mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ffmpeg } from '../support/clips.ts'
import { CLIPS, type Clip, clipArguments } from './quality-clips.ts'
import { HEIGHTS, SETTINGS, type Setting } from './quality-settings.ts'
import { timed } from './timed.ts'

/**
 * Size, CPU, VMAF and SSIM of the renditions of the product, beside those of PeerTube and Immich with their default
 * settings. Each rendition is compared with the source scaled to its own size. `BENCH_VMAF_FFMPEG` is an ffmpeg with
 * libvmaf, which Debian's is not: the Python package `imageio-ffmpeg` brings one. `BENCH_FOOTAGE` is a folder of the
 * files that the clips need; a clip whose files are missing is left out.
 */
const VMAF = process.env['BENCH_VMAF_FFMPEG']
const FOOTAGE = process.env['BENCH_FOOTAGE'] ?? ''
const COMMON = ['-pix_fmt', 'yuv420p']

interface Row {
  kb: number
  cpu: number
  vmaf: number
  /** Of the frames, the value below which 5 % lie. */
  low: number
  ssim: number
}

if (VMAF) await measureAll(VMAF)
else {
  console.log('Skipped: set BENCH_VMAF_FFMPEG to an ffmpeg with libvmaf, such as the one inside the Python package')
  console.log(
    'imageio-ffmpeg (`pip download --no-deps imageio-ffmpeg==0.6.0`, a zip file; make the program executable).',
  )
}

async function measureAll(vmaf: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-bench-'))
  try {
    console.log(
      '| clip | lines | setting | kB | CPU, s | VMAF | lowest 5 % | SSIM |\n|---|---|---|---|---|---|---|---|',
    )
    for (const clip of CLIPS) await measureClip(vmaf, folder, clip)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function measureClip(vmaf: string, folder: string, clip: Clip): Promise<void> {
  const missing = await missingOf(clip)
  if (missing.length > 0) {
    console.log(`| ${clip.name} | left out: BENCH_FOOTAGE has no ${missing.join(', ')} | | | | | | |`)
    return
  }
  const source = join(folder, 'source.mp4')
  await ffmpeg(clipArguments(clip, (name) => join(FOOTAGE, name), source).slice(4))
  for (const height of HEIGHTS) {
    const frames = join(folder, 'frames.y4m')
    await ffmpeg(['-i', source, '-vf', `scale=-2:${height}:flags=bicubic`, ...COMMON, frames])
    for (const setting of SETTINGS) {
      const r = await measure(vmaf, frames, setting, height)
      const numbers = [r.kb.toFixed(0), r.cpu.toFixed(1), r.vmaf.toFixed(1), r.low.toFixed(1), r.ssim.toFixed(4)]
      console.log(`| ${clip.name} | ${height} | ${setting.name} | ${numbers.join(' | ')} |`)
    }
  }
}

async function missingOf(clip: Clip): Promise<string[]> {
  const missing: string[] = []
  for (const name of clip.needs) await access(join(FOOTAGE, name)).catch(() => missing.push(name))
  return missing
}

/** One thread, so that the CPU is that of the encoder alone. */
async function measure(vmaf: string, frames: string, setting: Setting, height: number): Promise<Row> {
  const made = `${frames}.mp4`
  const log = `${frames}.json`
  const run = [vmaf, '-nostdin', '-y', '-v', 'error']
  const encoder = setting.args(height).filter((arg, i, all) => arg !== '-threads:v:0' && all[i - 1] !== '-threads:v:0')
  const { cpu } = await timed([...run, '-i', frames, ...encoder, '-threads', '1', ...COMMON, made])
  const compare = `libvmaf=log_fmt=json:log_path=${log}:n_threads=2:feature=name=float_ssim`
  const graph = `[0:v]setpts=N/30/TB[a];[1:v]setpts=N/30/TB[b];[a][b]${compare}`
  await timed([...run, '-i', made, '-i', frames, '-lavfi', graph, '-f', 'null', '-'])
  const all = (JSON.parse(await readFile(log, 'utf8')) as Log).frames.map((frame) => frame.metrics)
  const sorted = all.map((m) => m.vmaf).sort((a, b) => a - b)
  return {
    kb: (await stat(made)).size / 1000,
    cpu,
    vmaf: mean(sorted),
    low: sorted[Math.floor(sorted.length / 20)] ?? 0,
    ssim: mean(all.map((m) => m.float_ssim)),
  }
}

interface Log {
  frames: { metrics: { vmaf: number; float_ssim: number } }[]
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length)
