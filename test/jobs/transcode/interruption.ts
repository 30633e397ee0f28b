import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parseMediaPlaylist } from '../../../jobs/hls/media-playlist.ts'
import { clip } from '../../support/clips.ts'
import { eventually } from '../../support/eventually.ts'
import { processesOf } from '../../support/platform-process.ts'
import { slowEncoderPath } from '../../support/slow-ffmpeg.ts'
import { progressReceiver, transcodeBench } from '../../support/transcode-run.ts'

/**
 * A job that is interrupted at every step. Takes over 20 s: each case encodes for real, is killed, and encodes again.
 */

const run = promisify(execFile)

type Bench = Awaited<ReturnType<typeof transcodeBench>>

/** Command lines of ffmpeg that work below this folder. */
const encoders = (folder: string): string[] => processesOf(folder).filter((line) => /^\d+ (\S*\/)?ffmpeg /.test(line))

/** Between two looks, each of which reads the table of processes or lists the store: what is waited for lasts. */
const PAUSE_MS = 100
const waited = (what: string, look: () => boolean | Promise<boolean>) => eventually(what, look, undefined, PAUSE_MS)
const encoding = (bench: Bench) =>
  waited('an encoder', () => encoders(bench.folder).some((line) => line.includes('_%05d.ts')))
const nobody = (bench: Bench) => waited('no encoder', () => encoders(bench.folder).length === 0)

/** Decodes all renditions through the master playlist; throws when anything is missing or damaged. */
async function playAll(bench: Bench): Promise<void> {
  const master = join(await bench.checkout(), 'master.m3u8')
  const { stderr } = await run('ffmpeg', [
    '-nostdin',
    '-v',
    'error',
    '-xerror',
    '-i',
    master,
    '-map',
    '0',
    '-f',
    'null',
    '-',
  ])
  if (stderr) throw new Error(stderr)
}

/** The first seconds of a stream that is still growing, of which we hold a copy that does not grow. */
async function playBeginning(folder: string): Promise<void> {
  const input = ['-live_start_index', '0', '-i', join(folder, 'master.m3u8'), '-t', '5']
  const { stderr } = await run('ffmpeg', ['-nostdin', '-v', 'error', '-xerror', ...input, '-f', 'null', '-'], {
    timeout: 120_000,
  })
  if (stderr) throw new Error(stderr)
}

t.test('SIGTERM ends the encoder, tidies up and says so', async (t) => {
  const bench = await transcodeBench(t)
  const slow = { PATH: await slowEncoderPath(bench.folder, 0.5) }
  const job = bench.start([await bench.inputOf(await clip('sparseBars'))], {}, slow)
  await encoding(bench)
  job.process.kill('SIGTERM')
  const { exit, result } = await job.finished
  t.equal(exit, 143)
  t.match(result, { ok: false, reason: 'Terminated' })
  t.strictSame(encoders(bench.folder), [])
  t.strictSame(await bench.leftovers(), [])
  t.notOk((await bench.keys()).includes('manifest.json'))
})

t.test('kill -9 takes the encoder along, and the next attempt removes what was left', async (t) => {
  const bench = await transcodeBench(t)
  const input = await bench.inputOf(await clip('sparseBars'))
  const slow = { PATH: await slowEncoderPath(bench.folder, 0.5) }
  const job = bench.start([input], { renditions: ['360p'] }, slow)
  await encoding(bench)
  job.process.kill('SIGKILL')
  t.equal((await job.finished).killedBy, 'SIGKILL')
  await nobody(bench)
  t.equal((await bench.leftovers()).length, 1)
  const { exit, output } = await bench.run([input], { renditions: ['360p'] })
  t.equal(exit, 0, 'exits with 0', { output })
  t.strictSame(await bench.leftovers(), [])
  await playAll(bench)
})

const PLACES = ['job.playable', 'job.encoded', 'job.uploaded']
t.test(
  `deaths at ${PLACES} commit nothing, one after the manifest loses nothing, and the next attempt touches nothing`,
  async (t) => {
    const bench = await transcodeBench(t)
    const input = await bench.inputOf(await clip('earlySilence'))
    for (const KEEPSAKE_FAILPOINT of [...PLACES, 'job.manifest-written']) {
      t.notOk((await bench.keys()).includes('manifest.json'))
      t.equal((await bench.run([input], {}, { KEEPSAKE_FAILPOINT })).killedBy, 'SIGKILL', KEEPSAKE_FAILPOINT)
    }
    const before = await modified(bench)
    t.ok((await bench.keys()).includes('manifest.json'))
    // Not even the source is needed any more.
    await bench.store.delete(input.sourceKey)
    const { exit, result } = await bench.run([input])
    t.match({ exit, result }, { exit: 0, result: { ok: true, outputs: [{ id: 'med_1', state: 'Succeeded' }] } })
    t.strictSame(await modified(bench), before)
    await playAll(bench)
  },
)

async function modified(bench: Bench): Promise<[string, number][]> {
  const all: [string, number][] = []
  for await (const { key, lastModified } of bench.store.list(bench.prefix)) all.push([key, lastModified.getTime()])
  return all
}

t.test('two pods for one job do not disturb each other', async (t) => {
  const bench = await transcodeBench(t)
  const source = await clip('earlySilence')
  const input = await bench.inputOf(source)
  const both = await Promise.all([bench.run([input]), bench.run([input])])
  for (const { exit, output } of both) t.equal(exit, 0, 'exits with 0', { output })
  // x264 with several threads under a rate limit does not write the same bytes twice, so segments of both may stand side
  // by side. At such a seam the packet counters of MPEG-TS jump, which demuxers mention; every frame must be there.
  const published = await framesOf(join(await bench.checkout(), '240p.m3u8'))
  t.ok(published > 0, 'there are frames')
  t.equal(published, await framesOf(source))
})

t.test('an attempt that another one overtakes ends with its success, and keeps what it has published', async (t) => {
  const bench = await transcodeBench(t)
  const input = await bench.inputOf(await clip('sparseBars'))
  t.equal((await bench.run([input])).exit, 0)
  const [manifest, master] = [await bench.bytes('manifest.json'), await bench.text('master.m3u8')]
  t.match(master, /^720p\.m3u8$/m)
  // The first one was taken for dead, and commits after the second one has begun.
  await bench.store.delete(`${bench.prefix}manifest.json`)
  const job = bench.start([input], {}, { PATH: await slowEncoderPath(bench.folder, 2) })
  await encoding(bench)
  await bench.store.put(`${bench.prefix}manifest.json`, manifest, { contentType: 'application/json' })
  const { exit, result, output } = await job.finished
  t.equal(exit, 0, 'exits with 0', { output })
  t.match(result, { ok: true, outputs: [{ id: 'med_1', state: 'Succeeded' }] })
  t.equal(await bench.text('master.m3u8'), master)
  t.strictSame(await bench.bytes('manifest.json'), manifest)
  for (const name of ['360p', '720p', 'audio']) t.match(await bench.text(`${name}.m3u8`), /#EXT-X-ENDLIST\n$/)

  // The second one looks for a manifest, then the first one commits, then the second one writes, and dies.
  const early = master.split('\n').toSpliced(-3, 2).join('\n')
  t.notMatch(early, '720p')
  await bench.store.put(`${bench.prefix}master.m3u8`, early, { contentType: 'application/vnd.apple.mpegurl' })
  t.equal((await bench.run([input])).exit, 0)
  t.equal(await bench.text('master.m3u8'), master)
})

/** How many frames of the first video stream can be decoded. */
async function framesOf(path: string): Promise<number> {
  const only = ['-select_streams', 'v:0', '-show_entries', 'stream=nb_read_frames', '-of', 'csv=p=0']
  const { stdout } = await run('ffprobe', ['-v', 'error', '-count_frames', ...only, path])
  return Number.parseInt(stdout, 10)
}

t.test('people can watch long before the end, and what they began to watch goes on', async (t) => {
  const bench = await transcodeBench(t)
  const receiver = await progressReceiver(t)
  const job = bench.start(
    [await bench.inputOf(await clip('sparseBars'))],
    {},
    {
      PROGRESS_URL: receiver.url,
      PROGRESS_TOKEN: 'x',
      X264_PRESET: 'superfast', // ultrafast makes another profile
      PATH: await slowEncoderPath(bench.folder, 1),
    },
  )
  await waited('a master playlist', async () => (await bench.keys()).includes('master.m3u8'))
  t.equal(job.process.exitCode, null)
  const [master, media] = [await bench.text('master.m3u8'), await bench.text('360p.m3u8')]
  t.match(master, /^360p\.m3u8$/m)
  t.notMatch(master, /^720p\.m3u8$/m)
  t.match(master, /BANDWIDTH=\d+,AVERAGE-BANDWIDTH=\d+,CODECS="avc1\.64[0-9a-f]{4},mp4a\.40\.2"/)
  const begun = await bench.checkout()
  t.notOk((await bench.keys()).includes('manifest.json'))
  await playBeginning(begun)
  await waited('a report', () => receiver.reports.some((r) => r.playable?.includes('med_1') && r.percent < 100))

  const { exit, output } = await job.finished
  t.equal(exit, 0, 'exits with 0', { output })
  const early = parseMediaPlaylist(media)?.segments ?? []
  t.ok(early.length > 0)
  t.strictSame(parseMediaPlaylist(await bench.text('360p.m3u8'))?.segments.slice(0, early.length), early)
  for (const name of ['360p', '720p', 'audio']) t.match(await bench.text(`${name}.m3u8`), /#EXT-X-ENDLIST\n$/)
  t.match(await bench.text('master.m3u8'), /^720p\.m3u8$/m)
  await playAll(bench)
})

t.test('progress rises, names what can be played before the end, and is not sent too often', async (t) => {
  const bench = await transcodeBench(t)
  const receiver = await progressReceiver(t)
  const input = await bench.inputOf(await clip('earlySilence'))
  // On a fast and idle machine the clip would be done before a second report is due.
  const slow = { PATH: await slowEncoderPath(bench.folder, 3) }
  const started = performance.now()
  const { exit, output } = await bench.run(
    [input],
    {},
    { PROGRESS_URL: receiver.url, PROGRESS_TOKEN: 'secret-token', ...slow },
  )
  t.equal(exit, 0, 'exits with 0', { output })
  const { reports, tokens } = receiver
  t.strictSame([...tokens], ['Bearer secret-token'])
  t.notMatch(output, 'secret-token')
  t.ok(reports.length >= 2, `${reports.length} reports`)
  for (const [i, next] of reports.slice(1).entries()) {
    const before = reports[i]
    t.ok(before && next.percent >= before.percent, 'percent never falls')
    // Counted from the start: two that were sent in time may reach a busy receiver together, but none can come early.
    t.ok(next.at - started >= (i + 1) * 2000 - 50, 'at most one every two seconds')
  }
  t.ok(reports.some((r) => r.stage === 'Encoding' && (r.speed ?? 0) > 0 && r.accelerator === 'cpu'))
})
