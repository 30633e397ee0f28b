import { execFile } from 'node:child_process'
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { help } from '../../../jobs/chunks/help.ts'
import { probe } from '../../../jobs/ffmpeg/probe.ts'
import { cutOf } from '../../../jobs/hls/chunks/cut.ts'
import { openLead } from '../../../jobs/hls/chunks/lead.ts'
import { ladderOf } from '../../../jobs/hls/ladder.ts'
import { parseMediaPlaylist } from '../../../jobs/hls/media-playlist.ts'
import { EXIT } from '../../../lib/contract/job-result.ts'
import { clip } from '../../support/clips.ts'
import { eventually } from '../../support/eventually.ts'
import { pacedPath } from '../../support/paced-ffmpeg.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { transcodeBench } from '../../support/transcode-run.ts'

/** A first pass that ends before the video does, because pods have made the rest of the smallest rendition. */
const run = promisify(execFile)
type Bench = Awaited<ReturnType<typeof transcodeBench>>
const SPEC = { renditions: ['360p', '720p'] as ('360p' | '720p')[], parallelism: 64 }
/** `bars72` and `bars100`. */
type Seconds = 72 | 100
const FRAME_RATE = 10
const { signal } = new AbortController()
const tools = { accelerator: 'cpu', preset: 'ultrafast', cores: 1, signal, log: quietLog() } as const

/** What a pod leaves that has planned and died (sharing.ts: the program that does). */
async function planned({ store, prefix, folder: scratch }: Bench, sourcePath: string, sourceKey: string) {
  const source = await probe(sourcePath, signal)
  const sharing = { pods: SPEC.parallelism, store, sourceKey, prefix }
  const given = { source, sourcePath, ladder: ladderOf(source, SPEC.renditions), segmentSeconds: 6, sharing }
  const cut = cutOf(given)
  if (!cut || !(await openLead({ ...tools, ...given, scratch }, cut))) throw new Error('not shared')
}

async function opened(t: Test, seconds: Seconds, changed = async (path: string, _folder: string) => path) {
  const bench = await transcodeBench(t)
  const path = await changed(await clip(`bars${seconds}`), bench.folder)
  const input = await bench.inputOf(path)
  // Thirty seconds of the video take ten: the first pass has not come to its end when it is asked.
  const env = { PATH: await pacedPath(bench.folder, { ahead: 3, others: 60 }), CORES: '1' }
  const lead = (failpoint?: string) =>
    bench.run([input], SPEC, { ...env, ...(failpoint !== undefined && { KEEPSAKE_FAILPOINT: failpoint }) })
  const helper = async (index: number) => {
    const spec = { inputs: [input], accelerator: 'cpu' as const, parallelism: SPEC.parallelism }
    return help({ ...tools, store: bench.store, spec, index, scratch: await mkdtemp(join(bench.folder, 'helper-')) })
  }
  const dyingHelper = (index: number, failpoint: string) =>
    bench.startAs(
      'chunks',
      { inputs: [input], ...SPEC },
      { JOB_COMPLETION_INDEX: String(index), KEEPSAKE_FAILPOINT: failpoint, CORES: '1' },
    ).finished
  await planned(bench, path, input.sourceKey)
  return { bench, lead, helper, dyingHelper }
}

const partsOf = async (bench: Bench) => (await bench.keys()).filter((key) => key.endsWith('.part.json')).sort()
const put = (bench: Bench, name: string, value: object) =>
  bench.store.put(bench.prefix + name, JSON.stringify(value), { contentType: 'application/json' })

async function listed(bench: Bench, name: string) {
  const text = await bench.text(`${name}.m3u8`).catch(() => '')
  const { segments = [], ended } = parseMediaPlaylist(text) ?? {}
  return { uris: segments.map(({ uri }) => uri), ended }
}
const numbersOf = (uris: readonly string[]) => uris.map((uri) => Number(uri.slice(-8, -3)))

/** What players see of the smallest rendition while `running` runs: a list that grows and has no gap. */
async function watched<T>(t: Test, bench: Bench, running: Promise<T>): Promise<T> {
  const state = { ended: false }
  const end = running.finally(() => {
    state.ended = true
  })
  end.catch(() => {}) // awaited below
  const wrong: string[][] = []
  for (let known = (await listed(bench, '360p')).uris.length; !state.ended; await sleep(100)) {
    const { uris } = await listed(bench, '360p')
    if (uris.length < known || numbersOf(uris).some((n, k) => n !== k)) wrong.push(uris)
    known = Math.max(known, uris.length)
  }
  t.strictSame(wrong, [], 'the list of the smallest rendition never shrinks')
  return end
}

/** All that a player would find: the playlists and nothing else, every frame once and at its time. */
async function judge(t: Test, bench: Bench, due: Seconds) {
  const count = Math.ceil(due / 6)
  const folder = await bench.checkout()
  const keys = await bench.keys()
  const times: number[][] = []
  const lists: string[][] = []
  for (const name of ['360p', '720p']) {
    const { uris, ended } = await listed(bench, name)
    t.equal(ended, true)
    t.strictSame(numbersOf(uris), [...Array(count).keys()], name)
    // What an earlier first pass has made beyond its end stays: another attempt that is alive may list it.
    const ofChunks = (names: readonly string[]) => names.filter((one) => one.startsWith(`${name}x`)).sort()
    t.strictSame(ofChunks(keys), ofChunks(uris), 'nothing else is left of its chunks')
    lists.push(uris)
    const path = join(folder, `${name}.m3u8`)
    const args = ['-v', 'error', '-show_entries', 'packet=pts_time', '-of', 'csv=p=0', path]
    const { stdout } = await run('ffprobe', args, { maxBuffer: 1 << 24 })
    times.push([...stdout.matchAll(/^(\d+\.\d+)/gm)].map(([, at]) => Number(at)).sort((a, b) => a - b))
    const { stderr } = await run('ffmpeg', ['-v', 'error', '-i', path, '-f', 'null', '-'])
    // Each encoder counts the packets of its transport stream anew.
    t.equal(stderr.replace(/^.*Packet corrupt.*\n/gm, ''), '', 'all of it can be decoded')
  }
  t.equal(times[0]?.length, FRAME_RATE * due)
  t.strictSame(times[1], times[0], 'the renditions have the same frames at the same times')
  t.notOk(keys.some((key) => key.startsWith('chunks/')))
  const sound = parseMediaPlaylist(await bench.text('audio.m3u8'))
  const seconds = sound?.segments.reduce((sum, s) => sum + s.seconds, 0) ?? 0
  t.ok(sound?.ended && Math.abs(seconds - due) < 0.25, 'and all of the sound', { seconds })
  t.match((await bench.manifest()).hls.renditions, [{ segments: count }, { segments: count }])
  return lists
}

t.test('it ends where pods carry the rest; what players have of it outlives the pod that leads', async (t) => {
  const { bench, lead, helper, dyingHelper } = await opened(t, 100)
  // This one begins with the chunk that players need behind the first pass.
  t.match(await dyingHelper(15, 'chunk.done:1'), { killedBy: 'SIGKILL' })
  const [part = ''] = await partsOf(bench)
  t.match(part, /\/1\.part\.json$/)
  t.match(JSON.parse(await bench.text(part)).renditions, [{ name: '360p' }, { name: '720p' }])
  for (const [k, by] of ['helper-0', 'helper-1'].entries()) {
    await put(bench, part.replace('/1.part', `/${k + 2}.claim`), { by })
  }
  t.match(await lead('job.joined'), { killedBy: 'SIGKILL' })
  const before = await listed(bench, '360p')
  t.match(before, { uris: { length: 10 }, ended: false }, 'what the chunk holds is listed at once')
  t.match(before.uris.at(-1), /^360px/)
  t.ok((await bench.text('master.m3u8')).includes('audio.m3u8'), 'with the sound')
  const further = { contentType: 'video/mp2t' }
  await bench.store.put(`${bench.prefix}360p_00016.ts`, 'of a first pass that came further', further)

  const watching = watched(t, bench, lead())
  const ofLead = async () => (await partsOf(bench)).find((name) => name.endsWith('/0.part.json'))
  const made = await eventually('what the pod that leads has made', ofLead, undefined, 100)
  t.match(JSON.parse(await bench.text(made)), { by: 'lead', renditions: [{ name: '720p' }] })
  t.equal((await listed(bench, '360p')).uris.length, 10)
  t.match(await Promise.all([helper(0), helper(1)]), [{ exit: 0 }, { exit: 0 }])
  const { exit, result, output } = await watching
  t.equal(exit, 0, 'exits with 0', { output })
  t.match(
    result?.planReason,
    /^360p in a pass of its own for \d\d s, so that it plays early; 720p, and the rest of 360p, in 4 chunks, which/,
  )
  const [small = [], large = []] = await judge(t, bench, 100)
  const begun = small.findIndex((name) => name.startsWith('360px'))
  t.ok(begun >= 5 && begun < 15, 'the first pass ended early', { begun })
  t.ok(
    small.slice(begun).every((name) => name.startsWith('360px')) && large.every((name) => name.startsWith('720px')),
    'chunks hold the rest',
  )
})

t.test('where a chunk does not fit, one process makes all renditions, and players keep what they have', async (t) => {
  const { bench, lead, helper } = await opened(t, 72)
  t.match(await helper(0), { exit: 0 }, 'the helper has made all')
  const parts = await partsOf(bench)
  t.equal(parts.length, 3)
  const name = parts.at(-1) ?? ''
  const part = JSON.parse(await bench.text(name))
  await put(bench, name, { ...part, renditions: [{ ...part.renditions[0], first: 11 }, part.renditions[1]] })
  t.match(await watched(t, bench, lead('job.ran-ahead')), { killedBy: 'SIGKILL' })
  const { uris } = await listed(bench, '360p')
  t.ok(uris.length >= 5 && uris.length <= 10, 'what does not fit was never listed', { uris })
  t.strictSame(await partsOf(bench), [], 'and is forgotten')
  const { exit, result, output } = await watched(t, bench, lead())
  t.equal(exit, 0, 'the next one makes all, without any other pod', { output })
  t.match(result?.planReason, /^360p in a pass of its own, so that it plays early; 720p in 3 chunks/)
  const [small = []] = await judge(t, bench, 72)
  t.ok(
    small.every((uri) => uri.startsWith('360p_')),
    'the first pass goes on to the end where no pod helps',
  )
})

/** The same with its index first, without the last tenth of its pictures. */
async function endingEarly(path: string, folder: string): Promise<string> {
  const [indexed, cut] = [join(folder, 'indexed.mp4'), join(folder, 'cut.mp4')]
  await run('ffmpeg', ['-v', 'error', '-i', path, '-c', 'copy', '-movflags', 'faststart', indexed])
  const args = ['-v', 'error', '-select_streams', 'v', '-show_entries', 'packet=pos', '-of', 'csv=p=0', indexed]
  const at = (await run('ffprobe', args)).stdout.trim().split('\n').map(Number)
  await writeFile(cut, (await readFile(indexed)).subarray(0, at[Math.round(at.length * 0.9)]))
  return cut
}

t.test('a source that ends early is refused by the first pass, although chunks of it are made', async (t) => {
  const { bench, lead, helper } = await opened(t, 72, endingEarly)
  t.match(await helper(0), { exit: 0 }, 'the helper has made what is there')
  t.equal((await partsOf(bench)).length, 3)
  const { exit, killedBy, result, output } = await lead('job.ran-ahead')
  t.strictSame([exit, killedBy], [EXIT.inputBad, null], 'and nothing is made again', { output })
  t.match(result, { ok: false, reason: 'Truncated' })
  const left = (await bench.keys()).filter((key) => /\.(ts|m3u8)$/.test(key))
  t.strictSame(left, [], 'nothing is left')
})
