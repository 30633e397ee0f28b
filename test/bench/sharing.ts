import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { ffmpeg } from '../support/clips.ts'
import { type Cost, timed } from './timed.ts'

/**
 * What more pods save: the same video by one pod that makes everything, and shared by as many as `BENCH_PODS` says
 * (`1 2`; 1 is one pod that shares with no other). Each pod is the real program, with `BENCH_CORES` (1) cores of its own by
 * `taskset`, so pods × cores must not exceed this machine's. `BENCH_SECONDS` (130) of 720p; `BENCH_CLIP` is a file of
 * one's own.
 */
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 130)
const CORES = Number(process.env['BENCH_CORES'] ?? 1)
const PODS = (process.env['BENCH_PODS'] ?? '1 2').split(' ').map(Number)
/** Of the CPU of one pod that makes everything, and of its wall time divided by the pods. */
const TARGETS = { cpu: 1.03, wall: 1.25 }

const folder = await mkdtemp(join(tmpdir(), 'keepsake-bench-'))
const store = openFolderStore({ folder: join(folder, 'store') })
const SOURCE = 'org/o/media/m/original'
let runs = 0

try {
  const path = process.env['BENCH_CLIP'] ?? (await makeClip())
  await store.upload(path, SOURCE, { contentType: 'video/mp4' })
  const alone = await convert(1)
  const rows = [row('one pod, not shared', alone, alone, 1)]
  for (const pods of PODS) {
    rows.push(row(pods === 1 ? 'one pod, in chunks' : `${pods} pods`, await convert(pods, true), alone, pods))
  }
  console.log(
    [
      `${SECONDS} s, ${CORES} cores for each pod, of ${availableParallelism()}`,
      '',
      '| | CPU s | of one pod | wall s | speedup | wall × pods, of one pod |',
      '|---|---|---|---|---|---|',
      ...rows,
    ].join('\n'),
  )
} finally {
  await store.close()
  await rm(folder, { recursive: true, force: true })
}

async function makeClip(): Promise<string> {
  const path = join(folder, 'clip.mp4')
  const picture = `testsrc2=s=1280x720:r=30:d=${SECONDS},noise=alls=14:allf=t`
  await ffmpeg([
    ...['-f', 'lavfi', '-i', picture, '-f', 'lavfi', '-i', `sine=d=${SECONDS}`, '-c:v', 'libx264'],
    ...['-preset', 'ultrafast', '-crf', '26', '-g', '60', '-pix_fmt', 'yuv420p', '-c:a', 'aac', path],
  ])
  return path
}

/** All pods begin at the same time; the wall time is that of the one that leads. */
async function convert(pods: number, isShared = false): Promise<Cost> {
  const prefix = `org/o/media/m/v${++runs}/`
  const inputs = [{ id: 'm', type: 'video', sourceKey: SOURCE, outputPrefix: prefix }]
  // What one pod alone would do with chunks is measured as well: its plan is made for two.
  const spec = { inputs, accelerator: 'cpu', ...(isShared && { parallelism: Math.max(2, pods) }) }
  const start = async (program: string, k: number): Promise<Cost> => {
    const work = join(folder, `work-${runs}-${k}`)
    await mkdir(work)
    const cpus = `${k * CORES}-${(k + 1) * CORES - 1}`
    const main = join(import.meta.dirname, `../../jobs/${program}/main.ts`)
    return timed(['taskset', '-c', cpus, process.execPath, main], {
      ...{ STORE_KIND: 'folder', STORE_FOLDER: join(folder, 'store'), WORK_FOLDER: work, CORES: String(CORES) },
      ...{ TERMINATION_LOG: join(work, 'termination-log'), JOB_SPEC: JSON.stringify(spec) },
      JOB_COMPLETION_INDEX: String(Math.max(0, k - 1)),
    })
  }
  const helpers = Array.from({ length: pods - 1 }, (_, k) => start('chunks', k + 1))
  const [lead, ...others] = await Promise.all([start('transcode', 0), ...helpers])
  return { wall: lead.wall, cpu: [lead, ...others].reduce((sum, { cpu }) => sum + cpu, 0) }
}

function row(name: string, cost: Cost, alone: Cost, pods: number): string {
  const [cpu, wall] = [cost.cpu / alone.cpu, (cost.wall * pods) / alone.wall]
  const verdict = (value: number, target: number) => `${value.toFixed(2)}${value <= target ? ', met' : ', missed'}`
  const numbers = [cost.cpu.toFixed(1), verdict(cpu, TARGETS.cpu), cost.wall.toFixed(1)]
  return `| ${[name, ...numbers, (alone.wall / cost.wall).toFixed(2), verdict(wall, TARGETS.wall)].join(' | ')} |`
}
