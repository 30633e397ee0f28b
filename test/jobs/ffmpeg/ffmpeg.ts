import { execFileSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import t from 'tap'
import {
  FfmpegFailed,
  type FfmpegProgress,
  filters,
  installed,
  progressParser,
  runFfmpeg,
  runFfprobe,
  stallCounter,
} from '../../../jobs/ffmpeg/ffmpeg.ts'
import { guardedInput } from '../../../jobs/ffmpeg/input.ts'
import { clip } from '../../support/clips.ts'
import { eventually } from '../../support/eventually.ts'

const calm = new AbortController().signal
const endless = ['-re', '-f', 'lavfi', '-i', 'testsrc2=s=64x64', '-f', 'null', '-']

t.test('progress is read in microseconds, and N/A is no time', async (t) => {
  const seen: FfmpegProgress[] = []
  const onLine = progressParser((p) => seen.push(p))
  const lines = [
    'frame=0',
    'out_time_us=N/A',
    'progress=continue',
    'frame=30',
    'out_time_us=1000000',
    'out_time_ms=1000000',
    'progress=end',
  ]
  for (const line of lines) onLine(line)
  t.strictSame(seen, [
    { seconds: null, frames: 0 },
    { seconds: 1, frames: 30 },
  ])
})

t.test('an aborted run ends at once with the reason of the abort', async (t) => {
  const stop = new AbortController()
  const running = runFfmpeg({
    args: endless,
    signal: stop.signal,
    limitMs: 600_000,
    onProgress: () => stop.abort(new Error('enough')),
  })
  await t.rejects(running, { message: 'enough' })
  await t.rejects(runFfmpeg({ args: endless, signal: stop.signal, limitMs: 600_000 }), { message: 'enough' })
})

t.test('a run beyond its limit is stopped, which blames nobody', async (t) => {
  await t.rejects(runFfmpeg({ args: endless, signal: calm, limitMs: 300 }), {
    name: 'TransientError',
    reason: 'Timeout',
  })
})

t.test('a run that hangs is ended, however long it may take', async (t) => {
  // The second frame comes after hours; until then every report says the same.
  const args = ['-re', '-f', 'lavfi', '-i', 'testsrc2=s=64x64:r=1/10000', '-f', 'null', '-']
  const running = runFfmpeg({ args, signal: calm, limitMs: 600_000, stallMs: 1500 })
  await t.rejects(running, { name: 'TransientError', code: 20, reason: 'Stalled' })
  t.equal(await childOf('ffmpeg'), undefined)
})

t.test('a run that is slow but goes on is left alone', async (t) => {
  const args = ['-re', '-f', 'lavfi', '-i', 'testsrc2=s=64x64:d=9', '-f', 'null', '-']
  let frames = 0
  const onProgress = (p: FfmpegProgress) => {
    frames = p.frames
  }
  await runFfmpeg({ args, signal: calm, limitMs: 600_000, stallMs: 60_000, onProgress })
  t.equal(frames, 225)
})

t.test('what ends a run that reports the same again and again', async (t) => {
  const { saw, isStalled } = stallCounter(3)
  const looks = (...reports: FfmpegProgress[]) => {
    for (const report of reports) saw(report)
    return isStalled()
  }
  t.strictSame([looks(), looks()], [false, false])
  t.equal(looks({ seconds: null, frames: 1 }), false, 'a frame')
  t.equal(looks({ seconds: 1, frames: 1 }), false, 'a second')
  t.equal(looks({ seconds: 1, frames: 1 }, { seconds: 1, frames: 1 }), false)
  t.equal(looks({ seconds: 1, frames: 1 }), true)
})

t.test('what an encoder sees of our environment is no secret, and killing it blames nobody', async (t) => {
  process.env['S3_SECRET_KEY'] = 'bucket-key'
  t.teardown(() => delete process.env['S3_SECRET_KEY'])
  const running = runFfmpeg({ args: endless, signal: calm, limitMs: 600_000 })
  const pid = await eventually('ffmpeg', () => childOf('ffmpeg'))
  t.notMatch(await readFile(`/proc/${pid}/environ`, 'utf8'), 'bucket-key')
  process.kill(pid, 'SIGKILL')
  await t.rejects(running, { name: 'TransientError', code: 20, reason: 'Killed' })
})

async function childOf(name: string): Promise<number | undefined> {
  const children = await readFile(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8')
  for (const pid of children.trim().split(' ').filter(Boolean)) {
    const command = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '')
    if (command.trim() === name) return Number(pid)
  }
  return undefined
}

t.test('an error keeps what ffmpeg said', async (t) => {
  const running = runFfmpeg({
    args: [...guardedInput('upload', '/nowhere/x.mp4'), '-f', 'null', '-'],
    signal: calm,
    limitMs: 60_000,
  })
  const error = await running.catch((e: unknown) => e)
  t.ok(error instanceof FfmpegFailed)
  t.match((error as FfmpegFailed).complaints.tail, 'No such file or directory')
})

t.test('equal complaints are counted one by one', async (t) => {
  const args = [...guardedInput('upload', await clip('damaged')), '-f', 'null', '-']
  const complaints = await runFfmpeg({ args, signal: calm, limitMs: 60_000 })
  t.ok(complaints.damaged > 50, `${complaints.damaged}`)
  t.equal(complaints.endedEarly, false)
})

t.test('half a file is noticed though ffmpeg is content', async (t) => {
  const args = [...guardedInput('upload', await clip('truncated')), '-f', 'null', '-']
  t.equal((await runFfmpeg({ args, signal: calm, limitMs: 60_000 })).endedEarly, true)
})

t.test('only local files, containers and codecs of the list are opened', async (t) => {
  const refused = await runFfprobe({
    args: guardedInput('upload', await clip('exotic')),
    signal: calm,
    limitMs: 60_000,
    onLine: () => {},
  })
  t.not(refused.code, 0)
  t.match(refused.complaints, 'not on whitelist')
  t.throws(() => guardedInput('upload', 'http://169.254.169.254/latest'), /absolute/)
  t.throws(() => guardedInput('upload', '-i'), /absolute/)
})

t.test('what this ffmpeg can do is known', async (t) => {
  const [{ version, encoders }, filtering] = [await installed(calm), await filters()]
  // A part of the names of stored pieces: they stay valid.
  t.equal(version, execFileSync('ffmpeg', ['-version'], { encoding: 'utf8' }).split('\n')[0])
  t.ok(encoders.has('libx264') && encoders.has('aac'))
  t.notOk(encoders.has('='), 'the legend above the list is no encoder')
  t.ok(filtering.has('fps') && filtering.has('scale'))
})
