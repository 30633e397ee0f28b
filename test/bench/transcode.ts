import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { guardedInput } from '../../jobs/ffmpeg/input.ts'
import { probe } from '../../jobs/ffmpeg/probe.ts'
import { passArguments } from '../../jobs/hls/args.ts'
import type { EncodePass } from '../../jobs/hls/encode-pass.ts'
import { ladderOf, type Rendition } from '../../jobs/hls/ladder.ts'
import { timelineOf } from '../../jobs/hls/timeline.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { ffmpeg } from '../support/clips.ts'
import { bundleProgram } from './compile.ts'
import { type Cost, timed } from './timed.ts'

/**
 * What the ladder costs, all with the encoder settings of the product and in one run on one machine, so that ratios
 * mean something: separate runs, one process, one process behind a 360p run, and the whole program with download,
 * verification and upload, as the image has it. For a clip as a camera writes it, for one as a messenger sends it, whose own stream is the
 * largest rendition, and for a recording of a screen, which one process makes faster than it plays. `BENCH_SECONDS` (60)
 * and `BENCH_CLIP` (a file of one's own, or one of `camera`, `messenger` and `screen`) change the source.
 */
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 60)
const CLIPS = ['camera', 'messenger', 'screen'] as const
const PREFIX = 'org/o/media/m/v1/'
const CAMERA = ['-preset', 'ultrafast', '-crf', '26']
const MESSENGER = ['-preset', 'superfast', '-b:v', '4M', '-maxrate', '5M', '-bufsize', '8M']
/** Of separate runs, when the largest rendition is copied. */
const COPIED_TARGET = 0.45
const PLAYABLE_TARGET_SECONDS = 1
/** Of three separate runs. Two share less. */
const SHARED_TARGET = 0.75

const add = (costs: readonly Cost[]): Cost => ({
  cpu: costs.reduce((sum, c) => sum + c.cpu, 0),
  wall: costs.reduce((sum, c) => sum + c.wall, 0),
})

const folder = await mkdtemp(join(tmpdir(), 'keepsake-bench-'))
const store = openFolderStore({ folder: join(folder, 'store') })
let program = ''
try {
  program = await bundleProgram('jobs/transcode/main', join(folder, 'program'))
  const own = process.env['BENCH_CLIP']
  const names = CLIPS.filter((name) => !own || own === name)
  if (own && names.length === 0) console.log(await measure(own))
  for (const name of names) console.log(`${await measure(await makeClip(name))}\n`)
} finally {
  await store.close()
  await rm(folder, { recursive: true, force: true })
}

async function measure(path: string): Promise<string> {
  const source = await probe(path, new AbortController().signal)
  const ladder = ladderOf(source, ['360p', '720p', '1080p'])
  const timeline = timelineOf(ladder, 6)
  let runs = 0

  async function encode(renditions: readonly Rendition[], withAudio: boolean, seconds?: number): Promise<Cost> {
    const out = join(folder, `out-${runs++}`)
    await mkdir(out)
    const cores = availableParallelism()
    const part = seconds === undefined ? [] : ['-t', String(seconds)]
    const pass: EncodePass = {
      source,
      renditions,
      withAudio,
      timeline,
      accelerator: 'cpu',
      cores,
      preset: 'veryfast',
    }
    const args = passArguments(pass, (options) => guardedInput('upload', path, [...options, ...part]), out)
    const cost = await timed(['ffmpeg', '-nostdin', '-y', '-v', 'error', ...args])
    await rm(out, { recursive: true })
    return cost
  }

  const separate: Cost[] = []
  for (const rendition of ladder) separate.push(await encode([rendition], true))
  const together = await encode(ladder, true)
  const early = add([await encode(ladder.slice(0, 1), true), await encode(ladder.slice(1), false)])
  const product = await runProgram(path)
  // The program decides how far the first pass runs ahead; here without all that it does beside encoding.
  const ahead = Number(/ran ahead for (\d+) s/.exec(product.planReason)?.[1])
  const overtaken =
    ahead > 0 ? add([await encode(ladder.slice(0, 1), true, ahead), await encode(ladder, true)]) : undefined
  return report(
    { separate: add(separate), together, early, overtaken, product, renditions: ladder.length },
    `${source.videoSeconds.toFixed(0)} s of ${source.width}x${source.height}`,
  )
}

async function makeClip(name: (typeof CLIPS)[number]): Promise<string> {
  const path = join(folder, `${name}.mp4`)
  const encoder = name === 'messenger' ? MESSENGER : CAMERA
  const picture =
    name === 'screen'
      ? `testsrc2=s=960x720:r=5:d=${SECONDS}`
      : `testsrc2=s=1920x1080:r=30:d=${SECONDS},noise=alls=14:allf=t`
  await ffmpeg([
    ...['-f', 'lavfi', '-i', picture, '-f', 'lavfi', '-i', `sine=d=${SECONDS}`],
    ...[
      '-c:v',
      'libx264',
      ...encoder,
      '-g',
      name === 'screen' ? '200' : '60',
      '-pix_fmt',
      'yuv420p',
      '-c:a',
      'aac',
      path,
    ],
  ])
  return path
}

interface Product extends Cost {
  /** Seconds until the first master playlist appears. */
  playable: number
  planReason: string
}

/** The real program, watched from outside: when does the first master playlist appear? */
async function runProgram(path: string): Promise<Product> {
  await store.delete(`${PREFIX}master.m3u8`)
  await store.delete(`${PREFIX}manifest.json`)
  const sourceKey = 'org/o/media/m/original'
  await store.upload(path, sourceKey, { contentType: 'video/mp4' })
  const inputs = [{ id: 'm', type: 'video', sourceKey, outputPrefix: PREFIX }]
  const started = performance.now()
  let playable = Number.NaN
  const cost = await timed(
    [process.execPath, program],
    {
      STORE_KIND: 'folder',
      STORE_FOLDER: join(folder, 'store'),
      WORK_FOLDER: join(folder, 'work'),
      TERMINATION_LOG: join(folder, 'termination-log'),
      JOB_SPEC: JSON.stringify({ inputs, accelerator: 'cpu' }),
    },
    async () => {
      while (!(await store.head(`${PREFIX}master.m3u8`)) && performance.now() - started < 3_600_000) await sleep(50)
      playable = (performance.now() - started) / 1000
    },
  )
  const { planReason } = JSON.parse(await text((await store.get(`${PREFIX}manifest.json`)).body))
  return { ...cost, playable, planReason }
}

interface Costs {
  separate: Cost
  together: Cost
  early: Cost
  overtaken: Cost | undefined
  product: Product
  renditions: number
}

function report({ separate, together, early, overtaken, product, renditions }: Costs, what: string): string {
  const row = (name: string, cost: Cost, target?: number) => {
    const ratio = cost.cpu / separate.cpu
    const verdict = target === undefined ? '' : `≤ ${target.toFixed(2)}: ${ratio <= target ? 'met' : 'MISSED'}`
    return `| ${name} | ${cost.cpu.toFixed(1)} | ${cost.wall.toFixed(1)} | ${ratio.toFixed(2)} | ${verdict} |`
  }
  const share = product.playable / product.wall
  const shared = renditions > 2 ? SHARED_TARGET : undefined
  const isCopied = product.planReason.includes('is the stream of the upload')
  const isQuick = product.playable <= PLAYABLE_TARGET_SECONDS
  const verdict = isCopied
    ? `≤ ${PLAYABLE_TARGET_SECONDS} s: ${isQuick ? 'met' : 'MISSED'}`
    : `≤ 0.30: ${share <= 0.3 ? 'met' : 'MISSED'}`
  return [
    `Ladder of ${what}, ${availableParallelism()} cores, x264 veryfast`,
    '',
    '| variant | CPU s | wall s | CPU of separate runs | target |',
    '|---|---|---|---|---|',
    row('separate runs', separate),
    row('one process', together, shared),
    row('360p first, then the rest in one process', early, shared),
    ...(overtaken ? [row('360p so far ahead as the program decided, then all in one process', overtaken)] : []),
    row('the whole program with download, verification and upload', product, isCopied ? COPIED_TARGET : undefined),
    '',
    '| first playable after | whole ladder after | share | target |',
    '|---|---|---|---|',
    `| ${product.playable.toFixed(1)} s | ${product.wall.toFixed(1)} s | ${share.toFixed(2)} | ${verdict} |`,
    '',
    product.planReason,
  ].join('\n')
}
