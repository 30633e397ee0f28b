import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { ffmpeg } from '../support/clips.ts'
import { programPath } from '../support/services/process.ts'
import { timed } from './timed.ts'

/**
 * What the program that converts a video costs beside its encoders: the CPU of each child process by what it is for, and
 * that of Node, once with the program as it is and once with the very same passes of ffmpeg alone, alternately
 * `BENCH_ROUNDS` (2) times. `BENCH_SECONDS` (12) of 1080p at 17 Mbit/s; `BENCH_CLIP` is a file of one's own.
 */
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 12)
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 2)
/** Of the same passes alone. */
const TARGET = 1.03
const PROGRAM = join(import.meta.dirname, '../../jobs/transcode/main.ts')
const PREFIX = 'org/o/media/m/v1/'
const SOURCE = 'org/o/media/m/original'
const TOOLS = ['ffmpeg', 'ffprobe'] as const

/** One process that the program has started, and what it took, in seconds of CPU. */
interface Child {
  args: string[]
  cpu: number
}

const KINDS: [string, (child: Child) => boolean][] = [
  ['encoders', ({ args }) => args.some((arg) => arg.endsWith('_%05d.ts'))],
  ['poster', ({ args }) => args.some((arg) => arg.startsWith('thumbnail='))],
  ['what ffmpeg is', ({ args }) => args.includes('-encoders')],
  ['facts of the source', ({ args }) => args.includes('-show_streams')],
  ['packets of segments', ({ args }) => args.includes('hls,mpegts')],
  ['packets of the source', ({ args }) => args.includes('-show_entries')],
  ['other processes', () => true],
]
const NODE = 'Node: download, verification, upload, pictures'

const folder = await mkdtemp(join(tmpdir(), 'keepsake-bench-'))
const store = openFolderStore({ folder: join(folder, 'store') })
const bin = join(folder, 'bin')
const log = join(folder, 'log')

try {
  const clip = process.env['BENCH_CLIP'] ?? (await makeClip())
  await store.upload(clip, SOURCE, { contentType: 'video/mp4' })
  await makeTools()
  const rounds = []
  for (let round = 0; round < ROUNDS; round++) {
    const { cpu, children } = await runProgram()
    rounds.push({ cpu, children, bare: await runBare(clip, children) })
  }
  console.log(report(rounds))
} finally {
  await store.close()
  await rm(folder, { recursive: true, force: true })
}

async function makeClip(): Promise<string> {
  const path = join(folder, 'clip.mp4')
  const picture = `testsrc2=s=1920x1080:r=30:d=${SECONDS},noise=alls=8:allf=t`
  await ffmpeg([
    ...['-f', 'lavfi', '-i', picture, '-f', 'lavfi', '-i', `sine=d=${SECONDS}`, '-c:v', 'libx264'],
    ...['-preset', 'ultrafast', '-b:v', '17M', '-maxrate', '20M', '-bufsize', '20M', '-g', '60', '-pix_fmt', 'yuv420p'],
    ...['-c:a', 'aac', path],
  ])
  return path
}

/** Stand before the real ones in the PATH, and write down what each process was asked for and what it took. */
async function makeTools(): Promise<void> {
  await mkdir(bin)
  for (const tool of TOOLS) {
    const real = await programPath(tool)
    const script = `#!/bin/bash
TIMEFORMAT='%3U %3S'
exec 3>&2
printf '%s\\n' "$@" > ${log}/$$
{ time ${real} "$@" 2>&3 3>&-; } 2>>${log}/$$
`
    await writeFile(join(bin, tool), script, { mode: 0o755 })
  }
}

async function runProgram(): Promise<{ cpu: number; children: Child[] }> {
  await store.deletePrefix(PREFIX)
  await rm(log, { recursive: true, force: true })
  await mkdir(log)
  const inputs = [{ id: 'm', type: 'video', sourceKey: SOURCE, outputPrefix: PREFIX }]
  const { cpu } = await timed([process.execPath, PROGRAM], {
    ...{ STORE_KIND: 'folder', STORE_FOLDER: join(folder, 'store'), WORK_FOLDER: join(folder, 'work') },
    ...{ TERMINATION_LOG: join(folder, 'termination-log'), PATH: `${bin}${delimiter}${process.env['PATH'] ?? ''}` },
    JOB_SPEC: JSON.stringify({ inputs, accelerator: 'cpu' }),
  })
  const names = (await readdir(log)).sort((a, b) => Number(a) - Number(b))
  return { cpu, children: await Promise.all(names.map((name) => readChild(join(log, name)))) }
}

async function readChild(path: string): Promise<Child> {
  const args = (await readFile(path, 'utf8')).trimEnd().split('\n')
  const [, user, system] = /^([\d.]+) ([\d.]+)$/.exec(args.pop() ?? '') ?? []
  if (user === undefined) throw new Error('a process was stopped: take a clip of which each pass goes to its end')
  return { args, cpu: Number(user) + Number(system) }
}

/** The same passes with the same arguments, in a folder of their own. */
async function runBare(clip: string, children: readonly Child[]): Promise<number> {
  const out = join(folder, 'bare')
  let cpu = 0
  for (const { args } of children.filter((child) => kindOf(child) === 'encoders')) {
    await mkdir(out)
    const bare = args.map((arg) => arg.replace(/^file:.*\/source$/, `file:${clip}`).replace(/^.*\/hls\//, `${out}/`))
    cpu += (await timed(['ffmpeg', ...bare])).cpu
    await rm(out, { recursive: true })
  }
  return cpu
}

function kindOf(child: Child): string {
  return KINDS.find(([, is]) => is(child))?.[0] ?? ''
}

function report(rounds: readonly { cpu: number; children: Child[]; bare: number }[]): string {
  const sums = rounds.map(({ children }) =>
    KINDS.map(([kind]) => {
      const of = children.filter((child) => kindOf(child) === kind)
      return { count: of.length, cpu: of.reduce((sum, child) => sum + child.cpu, 0) }
    }),
  )
  const row = (name: string, values: readonly number[]) =>
    `| ${[name, ...values.map((value) => value.toFixed(2))].join(' | ')} |`
  const nodes = rounds.map(({ children, cpu }) => cpu - children.reduce((sum, child) => sum + child.cpu, 0))
  const encoders = sums.map((of) => of[0]?.cpu ?? Number.NaN)
  const ratios = rounds.map(({ cpu, bare }) => cpu / bare)
  const paired = rounds.map(({ cpu }, i) => cpu / (encoders[i] ?? Number.NaN))
  const verdict = Math.min(...paired) <= TARGET ? 'met' : 'missed'
  return [
    `CPU seconds of ${ROUNDS} rounds, ${availableParallelism()} cores`,
    '',
    `| part |${' round |'.repeat(ROUNDS)}`,
    `|---|${'---|'.repeat(ROUNDS)}`,
    ...KINDS.flatMap(([kind], i) => {
      const count = sums[0]?.[i]?.count ?? 0
      return count === 0
        ? []
        : [
            row(
              `${kind} (${count})`,
              sums.map((of) => of[i]?.cpu ?? 0),
            ),
          ]
    }),
    row(NODE, nodes),
    row(
      'the whole program',
      rounds.map(({ cpu }) => cpu),
    ),
    row(
      'the same passes alone',
      rounds.map(({ bare }) => bare),
    ),
    row('the whole program, of these', ratios),
    row(`the whole program, of its own encoders (at most ${TARGET}: ${verdict})`, paired),
  ].join('\n')
}
