import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { help } from '../../../jobs/chunks/help.ts'
import { probe } from '../../../jobs/ffmpeg/probe.ts'
import { cutOf } from '../../../jobs/hls/chunks/cut.ts'
import { openLead } from '../../../jobs/hls/chunks/lead.ts'
import { ChunkPart, openProtocol } from '../../../jobs/hls/chunks/protocol.ts'
import { ladderOf } from '../../../jobs/hls/ladder.ts'
import { runLadder } from '../../../jobs/hls/ladder-run.ts'
import { parseMediaPlaylist } from '../../../jobs/hls/media-playlist.ts'
import { openPublisher } from '../../../jobs/hls/publisher.ts'
import { openFolderStore } from '../../../lib/runtime/object-store/folder.ts'
import { clip } from '../../support/clips.ts'
import { eventually } from '../../support/eventually.ts'
import { pacedPath } from '../../support/paced-ffmpeg.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { transcodeBench } from '../../support/transcode-run.ts'

/** A video that several pods convert: the real programs on one store, killed where it hurts. */
const run = promisify(execFile)
type Bench = Awaited<ReturnType<typeof transcodeBench>>
const FRAMES = 400
const SPEC = { renditions: ['360p', '720p'] as ('360p' | '720p')[], parallelism: 3 }

async function opened(t: Test, name: 'bars40' | 'barsHevc40' = 'bars40') {
  const bench = await transcodeBench(t)
  const input = await bench.inputOf(await clip(name))
  const start = (env: Record<string, string> = {}) => bench.start([input], SPEC, { CORES: '1', ...env })
  const helper = (index: number, env: Record<string, string> = {}) =>
    bench.startAs('chunks', { inputs: [input], ...SPEC }, { JOB_COMPLETION_INDEX: String(index), CORES: '1', ...env })
  return { bench, start, helper }
}

/** The part of a chunk that this pod has made, as long as it is there. */
async function partOf(bench: Bench, by: string): Promise<ChunkPart | undefined> {
  const names = (await bench.keys()).filter((key) => /^chunks\/.*part\.json$/.test(key))
  for (const name of names) {
    const text = await bench.text(name).catch(() => '{}')
    const part = ChunkPart.safeParse(JSON.parse(text)).data
    if (part?.by === by) return part
  }
  return undefined
}

const tagOf = (uri: string) => /^720px([0-9a-f]{8})_/.exec(uri)?.[1] ?? ''
async function listed(bench: Bench, name: string): Promise<string[]> {
  return parseMediaPlaylist(await bench.text(`${name}.m3u8`))?.segments.map((s) => s.uri) ?? []
}

/** All that a player would find: the playlists and nothing else, every frame once and at its time. */
async function judge(t: Test, bench: Bench): Promise<string[]> {
  const uris = await listed(bench, '720p')
  const keys = await bench.keys()
  t.strictSame(keys.filter((key) => key.startsWith('720p_') || key.startsWith('720px')).sort(), [...uris].sort())
  t.strictSame(
    keys.filter((key) => key.startsWith('chunks/')),
    [],
    'nothing is left of what the pods told each other',
  )
  t.strictSame(
    uris.map((uri) => Number(uri.slice(-8, -3))),
    uris.map((_, k) => k),
  )
  const folder = await bench.checkout()
  const times: number[][] = []
  for (const name of ['360p', '720p']) {
    const { stdout } = await run(
      'ffprobe',
      ['-v', 'error', '-show_entries', 'packet=pts_time', '-of', 'csv=p=0', join(folder, `${name}.m3u8`)],
      { maxBuffer: 1 << 24 },
    )
    times.push([...stdout.matchAll(/^(\d+\.\d+)/gm)].map(([, at]) => Number(at)).sort((a, b) => a - b))
  }
  t.equal(times[0]?.length, FRAMES)
  t.strictSame(times[1], times[0], 'the renditions have the same frames at the same times')
  const { stderr } = await run('ffmpeg', ['-v', 'error', '-xerror', '-i', join(folder, '720p.m3u8'), '-f', 'null', '-'])
  t.equal(stderr, '', 'all of it can be decoded')
  return uris
}

t.test(
  'three pods share a video, whose HEVC one of them adds; one dies with a chunk that is uploaded and not told of, and is replaced',
  async (t) => {
    const { bench, start, helper } = await opened(t, 'barsHevc40')
    const planned = await start({ KEEPSAKE_FAILPOINT: 'chunk.planned' }).finished
    t.equal(planned.killedBy, 'SIGKILL', 'one has planned')
    t.match(await helper(0, { KEEPSAKE_FAILPOINT: 'chunk.uploaded' }).finished, { killedBy: 'SIGKILL' })
    const lost = new Set((await bench.keys()).filter((key) => key.startsWith('720px')).map(tagOf))
    t.equal(lost.size, 1)
    // The others begin long before the pod that leads has made its first pass and would take their chunks.
    const lead = start({ PATH: await pacedPath(bench.folder, { ahead: 4, others: 60 }) })
    const [replaced, other] = [helper(0), helper(1)]
    const part = await eventually('its part', () => partOf(bench, 'helper-0'), undefined, 50)
    const first = await lead.finished
    t.equal(first.exit, 0, 'the pod that leads', { output: first.output })
    t.match(
      first.result?.planReason,
      /^360p in a pass of its own, so that it plays early; 720p in 2 chunks, which several/,
    )
    for (const { finished } of [replaced, other]) {
      const ended = await finished
      t.match(ended, { exit: 0, result: { ok: true } }, 'a helper', { output: ended.output })
    }
    const uris = await judge(t, bench)
    const made = part.renditions.flatMap(({ segments }) => segments.map(({ uri }) => uri))
    t.ok(made.length >= 5 && made.every((uri) => uris.includes(uri)), 'what the replacement has made is shown', {
      made,
    })
    t.notOk(
      uris.some((uri) => lost.has(tagOf(uri))),
      'and nothing of the one that died',
    )
    t.match(first.result?.planReason, /; it is added as 720p-hevc$/)
    const { renditions } = (await bench.manifest()).hls
    t.match(
      renditions.map((r) => [r.name, r.segments]),
      [
        ['360p', 7],
        ['720p', 7],
        ['720p-hevc', 7],
      ],
    )
    const folder = await bench.checkout()
    const hevc = [
      '-v',
      'error',
      '-i',
      join(folder, '720p-hevc.m3u8'),
      '-map',
      '0:v',
      '-progress',
      '-',
      '-f',
      'null',
      '-',
    ]
    const { stdout, stderr } = await run('ffmpeg', hevc)
    t.strictSame(
      [stderr, /^frame=(\d+)$/gm.exec(stdout.slice(stdout.lastIndexOf('frame=')))?.[1]],
      ['', String(FRAMES)],
    )
  },
)

t.test('the pod that leads needs no other one, and goes on where its last attempt has died', async (t) => {
  const { bench, start } = await opened(t)
  const died = await start({ KEEPSAKE_FAILPOINT: 'chunk.done:1' }).finished
  t.equal(died.killedBy, 'SIGKILL')
  const before = new Set((await bench.keys()).filter((key) => key.startsWith('720px')))
  t.ok((await bench.text('master.m3u8')).includes('360p.m3u8'), 'it plays meanwhile')
  const again = await start({ KEEPSAKE_FAILPOINT: 'job.encoded' }).finished
  t.equal(again.killedBy, 'SIGKILL', 'all chunks are made')
  const names = (await bench.keys()).filter((key) => key.startsWith('720px'))
  t.equal(names.filter((uri) => before.has(uri)).length, 5, 'one of two chunks was there')
  t.equal(names.length, 7, 'and was not made again')

  // Another pod has written what does not fit.
  const [name = ''] = (await bench.keys()).filter((key) => key.endsWith('/1.part.json'))
  const part = JSON.parse(await bench.text(name))
  await put(bench, name, { ...part, renditions: [{ ...part.renditions[0], first: 11 }] })
  await put(bench, name.replace('/1.', '/7.'), part)
  const { exit, output, result } = await start().finished
  t.equal(exit, 0, 'exits with 0', { output })
  t.match(result?.planReason, /720p in one pass after it/)
  const uris = await judge(t, bench)
  t.match(uris[0], /^720p_/, 'the pod that leads has made it alone')
})

const put = (bench: Bench, name: string, value: object) =>
  bench.store.put(bench.prefix + name, JSON.stringify(value), { contentType: 'application/json' })

t.test(
  'a helper reads the whole source where it must; what one claims and does not make is taken over; what does not fit is thrown away',
  async (t) => {
    const place = t.testdir({ store: {}, scratch: {}, helper: {} })
    const store = openFolderStore({ folder: join(place, 'store') })
    const { signal } = new AbortController()
    const sourcePath = await clip('bars40')
    const source = await probe(sourcePath, signal)
    const ladder = ladderOf(source, ['360p', '720p'])
    const sharing = {
      pods: 3,
      store,
      sourceKey: 'org/o/original',
      prefix: 'p/',
      timing: { pollMs: 50, overdueMs: 300, unknownMs: 300 },
    }
    const shared = { sharing, source, sourcePath, ladder, segmentSeconds: 6 }
    const options = {
      ...shared,
      ...{
        accelerator: 'cpu' as const,
        preset: 'ultrafast' as const,
        cores: 1,
        scratch: join(place, 'scratch'),
        signal,
        log: quietLog(),
      },
    }
    const cut = cutOf(shared)
    const lead = cut && (await openLead(options, cut))
    const protocol = openProtocol(store, 'p/', signal)
    const plan = await protocol.readPlan()
    if (!lead || !plan || plan === 'alone') throw new Error('not shared')
    t.notMatch(JSON.stringify(plan), /location|camera|capturedAt/)
    // What a helper reads of the source is not enough, as with files whose index lies between their packets.
    const tooLittle = plan.chunks.map((chunk) => ({ ...chunk, bytes: [0, 1] as [number, number] }))
    await store.upload(sourcePath, sharing.sourceKey, { contentType: 'video/mp4' })
    await protocol.writePlan({ ...plan, header: [[0, 1]], chunks: tooLittle })
    await protocol.claim(plan.id, 1, 'helper-7')
    const input = { id: 'med_1', type: 'video' as const, sourceKey: sharing.sourceKey, outputPrefix: 'p/' }
    const spec = { inputs: [input], accelerator: 'cpu' as const, parallelism: 3 }
    const tools = {
      store,
      scratch: join(place, 'helper'),
      cores: 1,
      signal,
      log: quietLog(),
    }
    t.match(await help({ ...tools, spec, index: 1 }), { exit: 0 })
    t.match(await protocol.states(plan), { done: new Set([0]) }, 'it makes what no other pod claims')
    t.match(await protocol.readPart(plan.id, 0), { by: 'helper-1', damaged: 0 })
    const seen: number[] = []
    const { videos } = await lead.make({ onProgress: (fraction) => void seen.push(fraction) })
    t.match(videos, [{ rendition: { name: '720p' }, frames: FRAMES }])
    t.equal(seen.at(-1), 1)

    const part = await protocol.readPart(plan.id, 1)
    if (!part) throw new Error('no part')
    const [made] = part.renditions
    await protocol.writePart(plan.id, 1, { ...part, renditions: [{ ...made, first: 11 } as never] })
    await t.rejects(lead.make({ onProgress: () => {} }), {
      reason: 'VerificationFailed',
      message: /chunk 1 begins at 11 s/,
    })
    const left: string[] = []
    for await (const { key } of store.list('p/')) left.push(key)
    t.notOk(
      left.some((key) => key.startsWith('p/chunks/')),
      'the parts are gone',
    )
    t.equal(left.filter((key) => key.endsWith('.ts')).length, 7, 'the segments are not: another attempt may name them')
    await protocol.writeAlone()
    t.match(await help({ ...tools, spec, index: 1 }), { exit: 0 }, 'ends where it cannot help')
  },
)

t.test('an attempt that another one has overtaken replaces no playlist', async (t) => {
  const place = t.testdir({ hls: {}, store: {} })
  const [folder, store] = [join(place, 'hls'), openFolderStore({ folder: join(place, 'store') })]
  const { signal } = new AbortController()
  const sourcePath = await clip('bars13')
  const source = await probe(sourcePath, signal)
  const whole = { contentType: 'application/vnd.apple.mpegurl' }
  await store.put('p/master.m3u8', 'whole', whole)
  const overtaken = new Error('overtaken')
  const ladder = runLadder({
    ...{ source, sourcePath, ladder: ladderOf(source, ['360p', '720p']), copied: 'not asked', segmentSeconds: 6 },
    ...{ scratch: place, folder, signal, log: quietLog(), accelerator: 'cpu', cores: 1, preset: 'ultrafast' },
    publisher: openPublisher({ store, prefix: 'p/', folder, targetSeconds: 6, signal }),
    sharing: { pods: 2, store, sourceKey: 'org/o/original', prefix: 'p/' },
    isNotConverted: () => Promise.reject(overtaken),
    ...{ onPlanned: () => {}, onProgress: () => {}, onPlayable: () => {} },
  })
  await t.rejects(ladder, overtaken)
  t.equal(await text((await store.get('p/master.m3u8')).body), 'whole')
  t.equal(await store.head('p/720p.m3u8'), undefined)
})

t.test('claims of pods that are gone do not end a first pass', async (t) => {
  const { signal } = new AbortController()
  const sourcePath = await clip('bars100')
  const source = await probe(sourcePath, signal)
  const ladder = ladderOf(source, ['360p', '720p'])
  const given = { source, sourcePath, ladder, segmentSeconds: 6, accelerator: 'cpu', preset: 'ultrafast' } as const
  const folder = t.testdir({ alive: {}, gone: {} })
  for (const [name, mostMs, ends] of [
    ['alive', 600_000, true],
    ['gone', 0, false],
  ] as const) {
    const store = openFolderStore({ folder: join(folder, name) })
    const timing = { pollMs: 0, overdueMs: mostMs, unknownMs: mostMs }
    const sharing = { pods: 64, store, sourceKey: 'org/o/original', prefix: 'p/', timing }
    const cut = cutOf({ ...given, sharing })
    if (!cut) throw new Error('it is too short')
    const lead = await openLead({ ...given, sharing, cores: 1, scratch: folder, signal, log: quietLog() }, cut)
    const protocol = openProtocol(store, 'p/', signal)
    const plan = await protocol.readPlan()
    if (!lead || !plan || plan === 'alone') throw new Error('not shared')
    const segments = [{ uri: '720px00000000_00000.ts', seconds: 6, bytes: 1 }]
    const made = { name: '720p', codec: 'avc1.64001f', frames: 60, first: 0, segments }
    const part = { version: 1 as const, by: 'helper-3', seconds: 1, damaged: 0, endedEarly: false, renditions: [made] }
    await protocol.writePart(plan.id, 2, part)
    for (const chunk of [0, 1]) await protocol.claim(plan.id, chunk, `helper-${chunk}`)
    t.equal(await lead.isEnough(cut.chunks[2]?.firstSegment ?? 0), ends, name)
    await store.close()
  }
})
