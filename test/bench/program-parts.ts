import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { ffmpeg } from '../support/clips.ts'
import { programPath } from '../support/services/process.ts'
import { bundleProgram } from './compile.ts'
import { timed } from './timed.ts'

/**
 * What the program that converts a video costs beside its encoders: the CPU of each process that it starts, by what it is
 * for, and that of Node, in seconds and `BENCH_ROUNDS` (2) times. As the image has it; `BENCH_PROGRAM` is the
 * JavaScript of another one, to compare with. `BENCH_SECONDS` (12) of 1080p at 17 Mbit/s; `BENCH_CLIP` is a file of one's own.
 */
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 12)
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 2)
/** Of its own encoders. */
const TARGET = 1.03
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
  const program = process.env['BENCH_PROGRAM'] ?? (await bundleProgram('jobs/transcode/main', join(folder, 'program')))
  const rounds = []
  for (let round = 0; round < ROUNDS; round++) rounds.push(await runProgram(program))
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

async function runProgram(program: string): Promise<{ cpu: number; children: Child[] }> {
  await store.deletePrefix(PREFIX)
  await rm(log, { recursive: true, force: true })
  await mkdir(log)
  const inputs = [{ id: 'm', type: 'video', sourceKey: SOURCE, outputPrefix: PREFIX }]
  const { cpu } = await timed([process.execPath, program], {
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

function kindOf(child: Child): string {
  return KINDS.find(([, is]) => is(child))?.[0] ?? ''
}

function report(rounds: readonly { cpu: number; children: Child[] }[]): string {
  const sumOf = (children: readonly Child[]) => children.reduce((sum, child) => sum + child.cpu, 0)
  const ofKind = (kind: string) => rounds.map(({ children }) => children.filter((child) => kindOf(child) === kind))
  const row = (name: string, values: readonly number[], digits = 2) =>
    `| ${[name, ...values.map((value) => value.toFixed(digits))].join(' | ')} |`
  const encoders = ofKind('encoders').map(sumOf)
  const ratios = rounds.map(({ cpu }, i) => cpu / (encoders[i] ?? Number.NaN))
  const verdict = ratios.every((ratio) => ratio <= TARGET) ? 'met' : 'missed'
  return [
    `${availableParallelism()} cores, CPU seconds`,
    '',
    `| part |${rounds.map((_, i) => ` round ${i + 1} |`).join('')}`,
    `|---|${'---|'.repeat(ROUNDS)}`,
    ...KINDS.flatMap(([kind]) => {
      const found = ofKind(kind)
      const count = found[0]?.length ?? 0
      return count === 0 ? [] : [row(`${kind} (${count})`, found.map(sumOf))]
    }),
    row(
      NODE,
      rounds.map(({ cpu, children }) => cpu - sumOf(children)),
    ),
    row(
      'the whole program',
      rounds.map(({ cpu }) => cpu),
    ),
    row(`of its encoders, at most ${TARGET}: ${verdict}`, ratios, 3),
  ].join('\n')
}
