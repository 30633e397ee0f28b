import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parseMediaPlaylist } from '../../../jobs/hls/media-playlist.ts'
import { type ClipName, clip, clipOf } from '../../support/clips.ts'
import { BEEPS_EVERY, beeps, joinedSound, onsets } from '../../support/sound.ts'
import { transcodeBench } from '../../support/transcode-run.ts'

/** Conversions of many kinds of video. Takes over 20 s: every one is encoded and decoded again for real. */

const run = promisify(execFile)
const H264 = ['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p']

/** Decodes a published stream as a player would, beginning with its master playlist, and counts its frames. */
async function play(
  master: string,
  rendition: number,
): Promise<{ frames: number; damaged: string; width: number; height: number }> {
  const { stdout, stderr } = await run(
    'ffprobe',
    [
      '-v',
      'error',
      '-count_frames',
      '-select_streams',
      `p:${rendition}:v`,
      '-show_entries',
      'stream=nb_read_frames,width,height',
      '-of',
      'json',
      master,
    ],
    { maxBuffer: 1 << 24 },
  )
  const stream = JSON.parse(stdout).programs?.[0]?.streams?.[0] ?? JSON.parse(stdout).streams[0]
  return { frames: Number(stream.nb_read_frames), damaged: stderr, width: stream.width, height: stream.height }
}

/** The time stamp of its first packet, counted from that of the first picture of each rendition. */
async function startSeconds(playlist: string): Promise<number> {
  const entries = ['-show_entries', 'format=start_time', '-of', 'csv=p=0', playlist]
  const { stdout } = await run('ffprobe', ['-v', 'error', ...entries])
  return Number(stdout) - 11.4
}

async function segmentSeconds(
  bench: Awaited<ReturnType<typeof transcodeBench>>,
  name: string,
  prefix = bench.prefix,
): Promise<number[]> {
  return parseMediaPlaylist(await bench.text(`${name}.m3u8`, prefix))?.segments.map((s) => s.seconds) ?? []
}

t.test('a phone video becomes a stream that plays whole in every rendition', async (t) => {
  const bench = await transcodeBench(t)
  const { exit, result, output } = await bench.run([await bench.inputOf(await clip('landscapeBars'))])
  t.equal(exit, 0, 'exits with 0', { output })
  t.strictSame(result?.outputs, [{ id: 'med_1', state: 'Succeeded', manifestKey: `${bench.prefix}manifest.json` }])
  t.match(result, { ok: true, accelerator: 'cpu' })

  const manifest = await bench.manifest()
  t.match(manifest.hls, { segmentSeconds: 6, durationSec: 13 })
  t.strictSame(
    manifest.hls.renditions.map((r) => [r.name, r.width, r.height, r.frameRate, r.segments]),
    [
      ['360p', 480, 360, 10, 3],
      ['720p', 960, 720, 10, 3],
      ['1080p', 1440, 1080, 10, 3],
    ],
  )
  t.match(manifest.source, { location: { latitude: 48.1351 }, camera: { model: 'Phone 3' }, audioCodec: 'aac' })
  for (const name of ['360p', '720p', '1080p']) {
    t.strictSame(await segmentSeconds(bench, name), [6, 6, 1], `${name} is cut at exactly six seconds`)
  }

  const folder = await bench.checkout()
  for (const [i, { width, height }] of manifest.hls.renditions.entries()) {
    t.strictSame(await play(join(folder, 'master.m3u8'), i), { frames: 130, damaged: '', width, height })
  }
  const { stdout } = await run('ffprobe', [
    '-v',
    'error',
    '-show_entries',
    'format_tags:stream_tags',
    join(folder, '1080pc_00000.ts'),
  ])
  t.notMatch(stdout, /48\.13|Acme|Phone|2024/, 'nothing about the owner is left in the stream')
  t.strictSame(await bench.leftovers(), [])
})

t.test('the master playlist says what was measured and what the bytes say', async (t) => {
  const bench = await transcodeBench(t)
  const fast = ['-f', 'lavfi', '-i', 'testsrc2=s=1280x720:r=60:d=1', '-f', 'lavfi', '-i', 'sine=f=440:d=1']
  const input = await bench.inputOf(await clipOf([...fast, ...H264, '-c:a', 'aac', '-b:a', '64k']))
  t.equal((await bench.run([input])).exit, 0)
  const master = await bench.text('master.m3u8')
  const { renditions } = (await bench.manifest()).hls
  t.strictSame(
    renditions.map((r) => r.frameRate),
    [30, 30],
    'small renditions of 60 frames get 30',
  )
  for (const r of renditions) {
    t.match(master, new RegExp(`BANDWIDTH=${r.bandwidth},AVERAGE-BANDWIDTH=${r.averageBandwidth},CODECS="${r.codecs}"`))
    t.ok(r.averageBandwidth <= r.bandwidth && r.bandwidth < 20 * r.averageBandwidth)
    const bytes = (await sizeOf(bench, r.name)) + (await sizeOf(bench, 'audio'))
    t.ok(Math.abs(bytes * 8 - r.averageBandwidth) < 0.02 * r.averageBandwidth, `${r.name} has its own average`)
    // ultrafast has no CABAC and hence is Baseline, which only the bytes can tell.
    t.match(r.codecs, /^avc1\.42[0-9a-f]{4},mp4a\.40\.2$/)
  }
})

async function sizeOf(bench: Awaited<ReturnType<typeof transcodeBench>>, name: string): Promise<number> {
  let bytes = 0
  for await (const o of bench.store.list(`${bench.prefix}${name}_`)) bytes += o.size
  return bytes
}

const shapes: [ClipName, string, [string, number, number][], number][] = [
  ['portrait', 'a portrait is scaled by its short side', [['360p', 360, 638]], 30],
  ['rotated', 'a rotated video stands upright', [['360p', 360, 640]], 30],
  ['silent', 'a video without sound has none', [['360p', 640, 360]], 50],
  ['variable', 'a variable frame rate becomes a constant one', [['180p', 320, 180]], 118],
  ['hdr', 'HDR is mapped to what every screen can show', [['360p', 640, 360]], 24],
  ['tiny', 'a tiny video keeps its size', [['36p', 64, 36]], 15],
  ['short', 'half a second is a video', [['240p', 320, 240]], 15],
  ['odd', 'odd sizes are cut to even ones', [['240p', 240, 426]], 30],
  ['wide', 'pixels become square', [['360p', 640, 360]], 25],
  ['webm', 'what browsers upload is converted', [['120p', 160, 120]], 25],
  ['recorded', 'what browsers record is converted', [['120p', 160, 120]], 25],
  ['resized', 'pictures that change their size are fitted into the first', [['180p', 320, 180]], 90],
  ['resizedTurned', 'also where they are turned', [['180p', 180, 320]], 90],
  ['longSound', 'the last picture stays while the sound goes on', [['240p', 320, 240]], 75],
  ['shortSound', 'sound that ends early is followed by silence', [['240p', 320, 240]], 75],
  ['scratchedBrief', 'one damaged frame does not cost the video', [['360p', 640, 360]], 60],
]
t.test('every shape of video', async (t) => {
  const bench = await transcodeBench(t)
  const prefixOf = (name: string) => `${bench.prefix}${name}/`
  const inputs = await Promise.all(shapes.map(async ([name]) => bench.inputOf(await clip(name), name, prefixOf(name))))
  const { exit, output } = await bench.run(inputs)
  t.equal(exit, 0, 'exits with 0', { output })
  for (const [name, what, renditions, frames] of shapes) {
    t.test(what, async (t) => {
      const manifest = await bench.manifest(prefixOf(name))
      t.strictSame(
        manifest.hls.renditions.map((r) => [r.name, r.width, r.height]),
        renditions,
      )
      const played = await play(join(await bench.checkout(prefixOf(name)), 'master.m3u8'), 0)
      t.ok(Math.abs(played.frames - frames) <= 1, `${played.frames} of ${frames} frames`)
      t.equal(played.damaged, '')
    })
  }
  t.test('HDR leaves no trace of itself', async (t) => {
    const segment = join(await bench.checkout(prefixOf('hdr')), '360p_00000.ts')
    const { stdout } = await run('ffprobe', [
      '-v',
      'error',
      '-show_entries',
      'stream=pix_fmt,color_transfer',
      '-of',
      'csv=p=0',
      segment,
    ])
    t.match(stdout, /^yuv420p,bt709/)
  })
  t.test('sound lasts as long as the picture', async (t) => {
    for (const name of ['longSound', 'shortSound']) {
      const text = await bench.text('audio.m3u8', prefixOf(name))
      const seconds = parseMediaPlaylist(text)?.segments.reduce((sum, s) => sum + s.seconds, 0) ?? 0
      t.ok(Math.abs(seconds - 3) < 0.1, `${name}: ${seconds} s`)
    }
    t.notOk((await bench.keys(prefixOf('silent'))).some((key) => key.startsWith('audio')))
    t.notMatch(await bench.text('master.m3u8', prefixOf('silent')), 'AUDIO')
  })
})

t.test('all renditions of NTSC are cut at the same instants', async (t) => {
  const bench = await transcodeBench(t)
  const rates: Record<string, number[]> = {
    ntsc: [30000 / 1001],
    // The nightmare of boundaries: 59.94 beside 29.97.
    fastNtsc: [60000 / 1001 / 2, 60000 / 1001],
  }
  // Not in H.264, whose stream would be copied.
  const bars = (size: string, rate: string) =>
    clipOf(['-f', 'lavfi', '-i', `smptebars=s=${size}:r=${rate}:d=4.5`, '-c:v', 'mpeg4', '-q:v', '5'])
  const paths = [await bars('160x90', '30000/1001'), await bars('1080x1080', '60000/1001')]
  const prefixOf = (name: string) => `${bench.prefix}${name}/`
  const inputs = Object.keys(rates).map((name, i) => bench.inputOf(paths[i] ?? '', name, prefixOf(name)))
  const spec = { renditions: ['360p' as const, '1080p' as const], segmentSeconds: 2 }
  const { exit, output } = await bench.run(await Promise.all(inputs), spec)
  t.equal(exit, 0, 'exits with 0', { output })
  for (const [name, expected] of Object.entries(rates)) {
    const { renditions } = (await bench.manifest(prefixOf(name))).hls
    t.strictSame(
      renditions.map((r) => r.frameRate),
      expected.map((r) => Number(r.toFixed(3))),
      name,
    )
    for (const r of renditions) {
      const seconds = await segmentSeconds(bench, r.name, prefixOf(name))
      t.equal(seconds.length, 3)
      for (const s of seconds.slice(0, -1)) t.ok(Math.abs(s - 2.002) < 0.0001, `${name}, ${r.name}: ${s}`)
    }
  }
})

t.test(
  'sound that changes its channels midway, has a gap or begins late stays where the pictures have it',
  async (t) => {
    const bench = await transcodeBench(t)
    const sound = ['-i', await joinedSound(), '-c:a', 'copy']
    const lates: Record<string, [number, number]> = {
      late: [0.7, 48_000],
      // ffprobe reads no further than 5 seconds.
      'far-later': [8, 48_000],
      'hardly-late': [0.045, 48_000],
      'hardly-late-44': [0.045, 44_100],
    }
    const late = (seconds: number, rate: number) => [
      ...['-f', 'lavfi', '-i', `smptebars=s=180x180:r=10:d=${Math.round(seconds) + 4}`],
      ...['-itsoffset', String(seconds), '-f', 'lavfi', '-i', `aevalsrc='${beeps}':s=${rate}:d=4`],
      ...['-c:a', 'flac', '-c:v', 'mpeg4', '-q:v', '5'],
    ]
    const videos: Record<string, string[]> = {
      encoded: ['-f', 'lavfi', '-i', 'smptebars=s=180x180:r=10:d=4', ...sound, '-c:v', 'mpeg4', '-q:v', '5'],
      // 80 ms are missing, as where a recorder lost packets.
      gap: [
        ...[
          '-f',
          'lavfi',
          '-i',
          'smptebars=s=180x180:r=10:d=4',
          '-f',
          'lavfi',
          '-i',
          `aevalsrc='${beeps}':s=48000:d=4`,
        ],
        ...['-af', "aselect='not(between(t,1.2,1.28))'", '-c:a', 'flac', '-c:v', 'mpeg4', '-q:v', '5'],
      ],
      ...Object.fromEntries(Object.entries(lates).map(([name, [seconds, rate]]) => [name, late(seconds, rate)])),
      copied: ['-f', 'lavfi', '-i', 'smptebars=s=720x720:r=10:d=4', ...sound, ...H264, '-g', '20'],
    }
    const prefixOf = (name: string) => `${bench.prefix}${name}/`
    const inputs = Object.entries(videos).map(async ([name, args]) =>
      bench.inputOf(await clipOf(args, 'mkv'), name, prefixOf(name)),
    )
    const { exit, output } = await bench.run(await Promise.all(inputs))
    t.equal(exit, 0, 'exits with 0', { output })
    for (const name of Object.keys(videos)) {
      t.match(
        (await bench.manifest(prefixOf(name))).planReason,
        name === 'copied' ? /stream of the upload;/ : /one pass/,
      )
      const playlist = join(await bench.checkout(prefixOf(name)), 'audio.m3u8')
      const start = await startSeconds(playlist)
      const heard = (await onsets(playlist)).map((at) => start + at)
      const first = 0.5 + (lates[name]?.[0] ?? 0)
      const off = heard.map((at, i) => at - first - i * BEEPS_EVERY)
      t.ok(heard.length === 4 && off.every((seconds) => Math.abs(seconds) < 0.01), `${name}: ${heard.join(', ')}`)
    }
  },
)
