import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { highlightLadder } from '../../jobs/highlight/canvas.ts'
import { KEYFRAME_FRAMES } from '../../jobs/highlight/plan.ts'
import { x264Options } from '../../jobs/hls/args.ts'
import { highlightFrames } from '../../lib/contract/highlight-length.ts'
import { piecesPrefix } from '../../lib/contract/object-keys.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { ffmpeg } from '../support/clips.ts'
import { flashClip, flashesAndClicks } from '../support/highlight-sync.ts'
import { type Cost, timed } from './timed.ts'

/**
 * What a highlight of 1080p clips costs in three renditions: the whole program, with download, sound, verification and upload,
 * beside one ffmpeg with one big filter graph and the same encoder settings; the same highlight in another order; and the
 * memory of thirty items beside that of three. `BENCH_ITEMS` (30), `BENCH_CUT_SECONDS` (4) and `BENCH_FADED_ITEMS` (30)
 * make it smaller. Prints each line as soon as it is measured.
 */
const ITEMS = Number(process.env['BENCH_ITEMS'] ?? 30)
const CUT_SECONDS = Number(process.env['BENCH_CUT_SECONDS'] ?? 4)
const FADED_ITEMS = Number(process.env['BENCH_FADED_ITEMS'] ?? 30)
const FADED_SECONDS = 4
/** So many clips are made; items beyond that are copies under names of their own. */
const DIFFERENT = 6
const PROGRAM = join(import.meta.dirname, '../../jobs/highlight/main.ts')
const MIB = 1024 ** 2

const run = promisify(execFile)
const folder = await mkdtemp(join(tmpdir(), 'keepsake-bench-'))
const store = openFolderStore({ folder: join(folder, 'store') })
const ladder = highlightLadder('landscape', [{ width: 1920, height: 1080 }], ['360p', '720p', '1080p'])
const clips = join(folder, 'clips')

try {
  await measure()
} finally {
  await store.close()
  await rm(folder, { recursive: true, force: true })
}

async function measure(): Promise<void> {
  await run('mkdir', ['-p', clips])
  for (let k = 0; k < DIFFERENT; k++) await makeClip(k)
  const clipsOf = (count: number) => Array.from({ length: count }, (_, k) => ({ id: k, path: clipPath(k % DIFFERENT) }))
  console.log(`${availableParallelism()} cores, x264 veryfast, 1080p clips into 360p, 720p and 1080p\n`)
  console.log('| highlight | CPU s | wall s | peak MiB | ratio of CPU | target |\n|---|---|---|---|---|---|')

  const few = await highlight('three', clipsOf(3), CUT_SECONDS, 'cut')
  row(`3 items of ${CUT_SECONDS} s, cuts`, few)
  const cut = clipsOf(ITEMS)
  const pieces = await highlight('cut', cut, CUT_SECONDS, 'cut', 3)
  row(`${ITEMS} items of ${CUT_SECONDS} s, cuts`, pieces)
  row('the same in another order', await highlight('cut-again', cut.toReversed(), CUT_SECONDS, 'cut', 3), pieces, 0.15)
  const graph = await bigGraph(cut, CUT_SECONDS, 'cut')
  row('one big filter graph', graph)
  row('pieces against the graph', pieces, graph, 1.15)
  const ratio = pieces.peak.held / few.peak.held
  console.log(
    `\nPeak of ${ITEMS} items: ${ratio.toFixed(2)} of that of 3 (target 1.10), ${inMib(pieces)} MiB (target 600).\n`,
  )

  const faded = clipsOf(FADED_ITEMS)
  const name = `${FADED_ITEMS} items of ${FADED_SECONDS} s, crossfades`
  const crossfaded = await highlight('faded', faded, FADED_SECONDS, 'crossfade', 3)
  row(name, crossfaded)
  const again = await highlight('faded-again', faded.toReversed(), FADED_SECONDS, 'crossfade', 3)
  row('the same in another order', again, crossfaded, 0.35)
  const fadedGraph = await bigGraph(faded, FADED_SECONDS, 'crossfade')
  row('one big filter graph', fadedGraph)
  row('pieces against the graph', crossfaded, fadedGraph, 1.3)
  for (const transition of ['cut', 'crossfade'] as const) await sync(transition)
}

interface Clip {
  id: number
  path: string
}

function clipPath(k: number): string {
  return join(clips, `${k}.mp4`)
}

type Measured = Awaited<ReturnType<typeof timed>>

function inMib({ peak }: Measured): number {
  return Math.round(peak.held / MIB)
}

function row(name: string, measured: Measured, base?: Cost, target?: number): void {
  const ratio = base && measured.cpu / base.cpu
  const verdict =
    ratio !== undefined && target !== undefined ? `≤ ${target}: ${ratio <= target ? 'met' : 'MISSED'}` : ''
  const cells = [
    name,
    measured.cpu.toFixed(1),
    measured.wall.toFixed(1),
    inMib(measured),
    ratio?.toFixed(2) ?? '',
    verdict,
  ]
  console.log(`| ${cells.join(' | ')} |`)
}

/** A click of sound and a white flash at the start of each second show whether they stay together. */
async function makeClip(k: number): Promise<void> {
  const flash = "drawbox=c=white:t=fill:enable='lt(mod(t,1),0.1)'"
  const picture = `testsrc2=s=1920x1080:r=30:d=${FADED_SECONDS},hue=h=${k * 12},noise=alls=14:allf=t,${flash}`
  const sound = `aevalsrc='0.5*sin(2*PI*1000*t)*lt(mod(t,1),0.1)':s=48000:d=${FADED_SECONDS}`
  await ffmpeg([
    ...['-f', 'lavfi', '-i', picture, '-f', 'lavfi', '-i', sound, '-c:v', 'libx264', '-preset', 'ultrafast'],
    ...['-crf', '26', '-g', '60', '-pix_fmt', 'yuv420p', '-c:a', 'aac', clipPath(k)],
  ])
}

async function highlight(
  id: string,
  sources: readonly Clip[],
  seconds: number,
  transition: 'cut' | 'crossfade',
  part = 0,
): Promise<Measured> {
  const items = []
  for (const { id, path } of sources) {
    // Highlights of another part of the benchmark have sources of their own, so that they find no pieces.
    const name = `${transition}-${part}-${id}`
    const sourceKey = `org/o/media/${name}/original`
    if (!(await store.head(sourceKey))) await store.upload(path, sourceKey, { contentType: 'video/mp4' })
    items.push({ id: name, type: 'video', sourceKey, cachePrefix: piecesPrefix('o', name), seconds })
  }
  const spec = { id, items, outputPrefix: `highlights/${id}/`, transition, accelerator: 'cpu' }
  return timed([process.execPath, PROGRAM], {
    STORE_KIND: 'folder',
    STORE_FOLDER: join(folder, 'store'),
    WORK_FOLDER: join(folder, 'work'),
    TERMINATION_LOG: join(folder, 'termination-log'),
    JOB_SPEC: JSON.stringify(spec),
  })
}

/** What one would write by hand: all clips into one graph, joined there, and encoded once. */
async function bigGraph(sources: readonly Clip[], seconds: number, transition: 'cut' | 'crossfade'): Promise<Measured> {
  const out = await mkdtemp(join(folder, 'graph-'))
  const frames = seconds * 30
  const paths = sources.map(({ path }) => path)
  const { starts } = highlightFrames(
    paths.map(() => ({ frames })),
    transition,
  )
  const each = paths.map((_, k) => {
    const video = `[${k}:v]fps=30,scale=1920:1080:flags=bicubic,setsar=1,format=yuv420p,trim=end_frame=${frames},settb=1/30,setpts=N[v${k}]`
    return `${video};[${k}:a]aresample=48000,apad,atrim=end=${seconds}[a${k}]`
  })
  const join1 =
    transition === 'cut'
      ? `${paths.map((_, k) => `[v${k}][a${k}]`).join('')}concat=n=${paths.length}:v=1:a=1[v][a]`
      : crossfades(starts)
  const scaled = ladder.map((r, k) => `[s${k}]scale=${r.width}:${r.height}:flags=bicubic,setsar=1[o${k}]`)
  const split = `[v]split=${ladder.length}${ladder.map((_, k) => `[s${k}]`).join('')}`
  const cores = availableParallelism()
  return timed([
    ...['ffmpeg', '-nostdin', '-y', '-v', 'error', ...paths.flatMap((path) => ['-i', path])],
    ...['-filter_complex', [...each, join1, split, ...scaled].join(';')],
    ...ladder.flatMap((r, k) => ['-map', `[o${k}]`, ...encoderOf(r, cores), '-f', 'mpegts', join(out, `${k}.ts`)]),
    ...['-map', '[a]', '-c:a', 'aac', '-b:a', '128k', '-f', 'mpegts', join(out, 'audio.ts')],
  ])
}

function crossfades(starts: readonly number[]): string {
  const rest = starts.slice(1)
  const [video, audio] = [
    rest.map((start, k) => {
      const [from, to] = [k === 0 ? '[v0]' : `[x${k}]`, k === rest.length - 1 ? '[v]' : `[x${k + 1}]`]
      return `${from}[v${k + 1}]xfade=transition=fade:duration=0.5:offset=${(start / 30).toFixed(6)}${to}`
    }),
    rest.map((_, k) => {
      const [from, to] = [k === 0 ? '[a0]' : `[y${k}]`, k === rest.length - 1 ? '[a]' : `[y${k + 1}]`]
      return `${from}[a${k + 1}]acrossfade=d=0.5${to}`
    }),
  ]
  return [...video, ...audio].join(';')
}

function encoderOf(r: (typeof ladder)[number], cores: number): string[] {
  return [
    ...x264Options({ preset: 'veryfast', cores }, KEYFRAME_FRAMES, 0),
    ...['-maxrate:v', String(r.maxrate), '-bufsize:v', String(r.bufsize), '-pix_fmt', 'yuv420p'],
    ...['-force_key_frames', `expr:gte(n,n_forced*${KEYFRAME_FRAMES})`, '-g', String(2 * KEYFRAME_FRAMES + 2)],
  ]
}

/** The greatest distance of a click from its flash in a highlight of thirty small clips with awkward rates. */
async function sync(transition: 'cut' | 'crossfade'): Promise<void> {
  const path = await flashClip()
  const sources = Array.from({ length: 30 }, (_, id) => ({ id, path }))
  await highlight(`sync-${transition}`, sources, FADED_SECONDS, transition, 7)
  const target = await mkdtemp(join(folder, 'sync-'))
  const prefix = `highlights/sync-${transition}/`
  for await (const { key } of store.list(prefix)) await store.download(key, join(target, key.slice(prefix.length)))
  const { flashes, clicks } = await flashesAndClicks(target)
  const apart = flashes.map((flash, k) => Math.abs(flash - (clicks[k] ?? Number.NaN)))
  const most = (1000 * Math.max(...apart)).toFixed(1)
  const found = `${flashes.length} flashes and ${clicks.length} clicks of 30`
  console.log(`\n30 clips of 29.97 frames and 44.1 kHz, ${transition}: ${found}, at most ${most} ms apart (target 20)`)
}
