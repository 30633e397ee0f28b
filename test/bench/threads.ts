import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { guardedInput } from '../../jobs/ffmpeg/input.ts'
import { probe } from '../../jobs/ffmpeg/probe.ts'
import { passArguments } from '../../jobs/hls/args.ts'
import { ladderOf } from '../../jobs/hls/ladder.ts'
import { timelineOf } from '../../jobs/hls/timeline.ts'
import { ffmpeg } from '../support/clips.ts'
import { timed } from './timed.ts'
import { median } from './world.ts'

/**
 * What the threads of ffmpeg cost: one pass with the ladder of 1080p as the product makes it for a CPU request of two
 * cores and of eight, beside the same with one thread for each encoder and with as many as a node with 64 cores has.
 * Rounds alternate; medians of `BENCH_ROUNDS` (3). `BENCH_SECONDS` (6) is the length of the source.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3)
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 6)
/** Of the wall time with one thread for each encoder, and of the CPU. */
const TARGETS = { wall: 0.8, cpu: 1.15 }
/** What a pod of two cores may hold (MiB): its memory of 2 GiB, less what Node takes. */
const TARGET_MEMORY = 1536

/** `threads` takes the place of those that the product gives to what the pattern names. */
const VARIANTS = [
  { name: '2 cores, one thread for each encoder', cores: 2, of: /^-threads:v/, threads: '1' },
  { name: '2 cores', cores: 2 },
  { name: '8 cores and more', cores: 8 },
  { name: '64 threads of each kind', cores: 8, of: /threads/, threads: '64' },
] as const

const folder = await mkdtemp(join(tmpdir(), 'keepsake-bench-'))
try {
  console.log(await measure())
} finally {
  await rm(folder, { recursive: true, force: true })
}

async function measure(): Promise<string> {
  const path = join(folder, 'clip.mp4')
  const picture = `testsrc2=s=1920x1080:r=30:d=${SECONDS},noise=alls=14:allf=t`
  const input = ['-f', 'lavfi', '-i', picture, '-f', 'lavfi', '-i', `sine=d=${SECONDS}`]
  await ffmpeg([...input, '-c:v', 'libx264', '-preset', 'ultrafast', '-crf', '26', '-pix_fmt', 'yuv420p', path])
  const source = await probe(path, new AbortController().signal)
  const renditions = ladderOf(source, ['360p', '720p', '1080p'])
  const pass = { source, renditions, withAudio: true, timeline: timelineOf(renditions, 6), accelerator: 'cpu' } as const
  const out = join(folder, 'out')
  const costs = VARIANTS.map((): { cpu: number; wall: number; held: number }[] => [])
  for (let round = 0; round < ROUNDS; round++) {
    const order = [...VARIANTS.entries()]
    for (const [k, variant] of round % 2 ? order.reverse() : order) {
      await rm(out, { recursive: true, force: true })
      await mkdir(out)
      const made = { ...pass, cores: variant.cores, preset: 'veryfast' } as const
      const args = passArguments(made, (options) => guardedInput('upload', path, options), out)
      const given = args.map((arg, i) =>
        'of' in variant && variant.of.test(args[i - 1] ?? '') ? variant.threads : arg,
      )
      const { cpu, wall, peak } = await timed(['ffmpeg', '-nostdin', '-y', '-v', 'error', ...given])
      costs[k]?.push({ cpu, wall, held: peak.held / 1024 ** 2 })
    }
  }
  return report(costs)
}

function report(costs: readonly { cpu: number; wall: number; held: number }[][]): string {
  const rows = costs.map((all, k) => {
    const of = (what: 'cpu' | 'wall' | 'held') => median(all.map((one) => one[what]))
    return { name: VARIANTS[k]?.name, cpu: of('cpu'), wall: of('wall'), held: of('held') }
  })
  const [single, two, eight] = rows
  const ratios = { wall: (two?.wall ?? 0) / (single?.wall ?? 1), cpu: (two?.cpu ?? 0) / (single?.cpu ?? 1) }
  const isMet =
    ratios.wall <= TARGETS.wall &&
    ratios.cpu <= TARGETS.cpu &&
    Math.max(two?.held ?? 0, eight?.held ?? 0) <= TARGET_MEMORY
  if (!isMet) process.exitCode = 1
  return [
    `${SECONDS} s of noisy 1080p30, medians of ${ROUNDS} alternating rounds. With 2 cores ${ratios.wall.toFixed(2)} of the wall time`,
    `(≤ ${TARGETS.wall}) and ${ratios.cpu.toFixed(2)} of the CPU (≤ ${TARGETS.cpu}) of one thread for each encoder; at most ${TARGET_MEMORY} MiB: ${isMet ? 'met' : 'MISSED'}`,
    '',
    '| threads for | CPU, s | wall, s | peak, MiB |',
    '|---|---|---|---|',
    ...rows.map((r) => `| ${r.name} | ${r.cpu.toFixed(1)} | ${r.wall.toFixed(1)} | ${r.held.toFixed(0)} |`),
  ].join('\n')
}
