import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { runFfmpeg } from '../../../jobs/ffmpeg/ffmpeg.ts'
import { guardedInput } from '../../../jobs/ffmpeg/input.ts'
import { type ProbedSource, probe } from '../../../jobs/ffmpeg/probe.ts'
import { rational } from '../../../jobs/ffmpeg/rational.ts'
import { passArguments } from '../../../jobs/hls/args.ts'
import type { EncodePass } from '../../../jobs/hls/encode-pass.ts'
import { ladderOf } from '../../../jobs/hls/ladder.ts'
import { formatMediaPlaylist, parseMediaPlaylist, type Segment } from '../../../jobs/hls/media-playlist.ts'
import { type PassPart, windowOf } from '../../../jobs/hls/pass-window.ts'
import { timelineOf } from '../../../jobs/hls/timeline.ts'
import { clip, clipOf } from '../../support/clips.ts'

/** Passes that make some segments of a video: put together they are what one pass makes. */
const run = promisify(execFile)
const { signal } = new AbortController()
/** Of two frames of the test picture, encoded each. */
const SAME_DB = 38

t.test('a window is counted in frames, and begins two seconds earlier', async (t) => {
  const timeline = timelineOf([{ frameRate: rational(30_000, 1001) }, { frameRate: rational(60_000, 1001) }], 6)
  const source = { frameRate: rational(60_000, 1001) }
  const part = (firstSegment: number, segments?: number): PassPart => ({ firstSegment, segments, tag: 'x' })
  const table: [PassPart, Partial<ReturnType<typeof windowOf>>][] = [
    [part(0, 2), { first: 0, preroll: 0, seekSeconds: 0, frames: 720, startSeconds: 0 }],
    [part(1, 2), { first: 360, preroll: 120, frames: 720, seekSeconds: (240 * 1001) / 60_000 }],
    [part(2), { first: 720, preroll: 120, frames: undefined, readSeconds: undefined }],
  ]
  for (const [given, wanted] of table) t.match(windowOf(source, timeline, given), wanted, JSON.stringify(given))
  // 99 × 179.82 frames are 17802.18, so the segment begins with frame 17803 and not earlier.
  t.equal(windowOf(source, timeline, part(99, 1)).first, 2 * 17_803)
  t.equal(windowOf({ frameRate: rational(15) }, timelineOf([{ frameRate: rational(15) }], 1), part(1, 1)).preroll, 15)
})

interface Scene {
  path: string
  renditions: string[]
  segmentSeconds: number
  cuts: number[]
}

async function encode(
  source: ProbedSource,
  { path, renditions, segmentSeconds }: Scene,
  folder: string,
  part?: PassPart,
): Promise<Map<string, Segment[]>> {
  await mkdir(folder, { recursive: true })
  const ladder = ladderOf(source, renditions)
  const pass: EncodePass = {
    ...{ source, renditions: ladder, withAudio: false, timeline: timelineOf(ladder, segmentSeconds) },
    ...{ accelerator: 'cpu', cores: 2, preset: 'superfast' },
    ...(part && { part }),
  }
  const args = passArguments(pass, (options) => guardedInput('upload', path, options), folder)
  await runFfmpeg({ args, signal, limitMs: 120_000 })
  const made = new Map<string, Segment[]>()
  for (const { name } of ladder) {
    made.set(name, parseMediaPlaylist(await readFile(join(folder, `${name}.m3u8`), 'utf8'))?.segments ?? [])
  }
  return made
}

async function packetsOf(playlist: string): Promise<{ pts: number[]; keys: number[] }> {
  const { stdout } = await run(
    'ffprobe',
    ['-v', 'error', '-select_streams', 'v:0', '-show_entries', 'packet=pts_time,flags', '-of', 'csv=p=0', playlist],
    { maxBuffer: 1 << 24 },
  )
  const all = stdout.split('\n').filter((line) => /^\d/.test(line))
  const of = (lines: string[]) => lines.map((line) => Number(line.split(',')[0])).sort((a, b) => a - b)
  return { pts: of(all), keys: of(all.filter((line) => line.includes(',K'))) }
}

/** Of each frame, how much alike both are, in decibels. */
async function likeness(a: string, b: string, log: string, shift = ''): Promise<number[]> {
  const graph = `[0:v]setpts=N${shift && `,${shift},setpts=N`}[a];[1:v]setpts=N[b];[a][b]psnr=stats_file=${log}`
  await run('ffmpeg', ['-v', 'error', '-i', a, '-i', b, '-filter_complex', graph, '-f', 'null', '-'])
  return [...(await readFile(log, 'utf8')).matchAll(/psnr_y:(\S+)/g)].map(([, db]) => (db === 'inf' ? 100 : Number(db)))
}

async function compare(t: Test, scene: Scene): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-parts-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const source = await probe(scene.path, signal)
  const whole = await encode(source, scene, join(folder, 'whole'))
  const joined = new Map<string, Segment[]>()
  for (const [k, firstSegment] of scene.cuts.entries()) {
    const next = scene.cuts[k + 1]
    const segments = next === undefined ? undefined : next - firstSegment
    const made = await encode(source, scene, join(folder, 'parts'), { firstSegment, segments, tag: `x${k}` })
    for (const [name, list] of made) joined.set(name, [...(joined.get(name) ?? []), ...list])
  }
  for (const [name, wanted] of whole) {
    const got = joined.get(name) ?? []
    t.strictSame(
      got.map((s) => s.seconds.toFixed(3)),
      wanted.map((s) => s.seconds.toFixed(3)),
      `${name}: segments are as long`,
    )
    t.strictSame(
      got.map((s) => s.uri.replace(/x\d/, '')),
      wanted.map((s) => s.uri),
      `${name}: and have the same numbers`,
    )
    const playlist = join(folder, 'parts', `${name}-joined.m3u8`)
    await writeFile(playlist, formatMediaPlaylist({ segments: got, ended: true }, scene.segmentSeconds))
    const reference = join(folder, 'whole', `${name}.m3u8`)
    const [a, b] = [await packetsOf(reference), await packetsOf(playlist)]
    t.strictSame(b, a, `${name}: the same frames at the same times, and keyframes at the same`)
    if (name !== [...whole.keys()][0]) continue
    const alike = await likeness(reference, playlist, join(folder, 'psnr.log'))
    t.equal(alike.length, a.pts.length)
    const least = Math.min(...alike)
    // Encoded twice, a frame differs a little; another frame of the test picture, whose numbers run, differs more.
    const shifted = await likeness(reference, playlist, join(folder, 'psnr.log'), 'trim=start_frame=1')
    t.ok(least > SAME_DB, `${name}: each frame is the same`, { least })
    t.ok(Math.min(...shifted) < SAME_DB, `${name}: and not its neighbor`, { neighbor: Math.min(...shifted) })
  }
}

const moving = (size: string, rate: string, seconds: number, preset: string) =>
  clipOf([
    ...['-f', 'lavfi', '-i', `testsrc2=s=${size}:r=${rate}:d=${seconds}`],
    ...['-c:v', 'libx264', '-preset', preset, '-pix_fmt', 'yuv420p'],
  ])
t.test('at 29.97 frames per second', async (t) => {
  const path = await moving('320x180', '30000/1001', 7, 'ultrafast')
  await compare(t, { path, renditions: ['180p'], segmentSeconds: 1, cuts: [0, 3, 4, 6] })
})
t.test('at 59.94 beside 29.97', async (t) => {
  const path = await moving('722x722', '60000/1001', 4.5, 'ultrafast')
  await compare(t, { path, renditions: ['180p', '722p'], segmentSeconds: 1, cuts: [0, 3] })
})
t.test('with frames of its source in another order', async (t) => {
  const path = await moving('320x240', '30', 7, 'veryfast')
  await compare(t, { path, renditions: ['240p'], segmentSeconds: 1, cuts: [0, 2, 5] })
})
t.test('where the size of its pictures changes', async (t) =>
  compare(t, { path: await clip('resized'), renditions: ['180p'], segmentSeconds: 1, cuts: [0, 1, 2] }),
)
t.test('where they are turned as well', async (t) =>
  compare(t, { path: await clip('resizedTurned'), renditions: ['180p'], segmentSeconds: 1, cuts: [0, 1, 2] }),
)
t.test(
  'frames of other sizes are fitted on the CPU, and where nothing mirrors them first or copies them beside',
  async (t) => {
    const resized = await probe(await clip('resized'), signal)
    const rotated = await probe(await clip('rotated'), signal)
    const fits = (source: ProbedSource, more: Partial<EncodePass> = {}, starts?: readonly number[]) => {
      const renditions = ladderOf(source, ['360p'])
      const timeline = { ...timelineOf(renditions, 6), ...(starts && { starts }) }
      const pass: EncodePass = {
        ...{ source, renditions, withAudio: false, timeline, accelerator: 'cpu', cores: 2, preset: 'veryfast' },
        ...more,
      }
      const args = passArguments(pass, (options) => options, '/')
      const [graph = ''] = args.filter((_, k) => args[k - 1] === '-filter_complex')
      t.equal(
        args.includes('-reinit_filter:v'),
        graph.includes('eval=frame'),
        'filters stay only behind the one that fits',
      )
      return args.includes('-reinit_filter:v')
    }
    t.ok(fits(resized))
    t.ok(fits(rotated), 'which are then turned')
    t.notOk(fits({ ...resized, video: { ...resized.video, frame: null } }), 'mirrored by ffmpeg')
    t.notOk(fits(resized, { accelerator: 'gpu' }), 'frames of the GPU')
    t.notOk(fits(resized, {}, [0, 90]), 'beside a copy')
  },
)
t.test('where the rate of its source changes', async (t) =>
  compare(t, { path: await clip('variable'), renditions: ['180p'], segmentSeconds: 1, cuts: [0, 2, 3] }),
)
