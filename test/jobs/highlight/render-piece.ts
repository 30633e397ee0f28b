// A process of its own: the code of Jobs forbids sharp to read uploads, and the tests of other files read them with it.
import t from 'tap'
import { rational } from '../../../jobs/ffmpeg/rational.ts'
import { bufferAtStart, outputArguments } from '../../../jobs/highlight/render-piece.ts'
import { ladderOf } from '../../../jobs/hls/ladder.ts'

t.test('a piece spends at most a quarter more than its bitrate, or 0.4 s of it for its keyframe', async (t) => {
  const rendition = { maxrate: 3_000_000, bufsize: 6_000_000 }
  for (const [frames, share] of [
    [15, 0.2],
    [60, 0.25],
    [120, 0.5],
    [216, 0.9],
    [900, 0.9],
  ] as const) {
    t.equal(bufferAtStart(frames, rendition), share, `${frames} frames`)
    const allowed = rendition.maxrate * Math.max(0.4, (0.25 * frames) / 30)
    t.ok(share * rendition.bufsize <= allowed, `${frames} frames`)
  }
})

/** What each output is told about x264, by the file it makes. */
function toldX264(args: readonly string[]): Map<string, Record<'params' | 'crf', string[]>> {
  const told = new Map<string, Record<'params' | 'crf', string[]>>()
  let output = { params: [] as string[], crf: [] as string[] }
  for (const [k, arg] of args.entries()) {
    if (arg.startsWith('-x264-params')) output.params.push(args[k + 1] ?? '')
    if (arg.startsWith('-crf')) output.crf.push(args[k + 1] ?? '')
    if (!arg.endsWith('.ts')) continue
    told.set(arg, output)
    output = { params: [], crf: [] }
  }
  return told
}

t.test(
  'x264 gets all its parameters in one option of each output, as the last one would replace the others',
  async (t) => {
    const renditions = ladderOf({ width: 1280, height: 720, frameRate: rational(30) }, ['360p', '720p'])
    const look = { transition: 'cut', fill: 'blur', kenBurns: false, title: null } as const
    const picture = { kind: 'still', motion: null } as const
    const part = { from: 0, frames: 120, of: 120, fades: false, texts: [], picture }
    for (const [preset, params, crf] of [
      ['veryfast', 'trellis=1:qcomp=0.7:stitchable=1:vbv-init=0.500', '24.6'],
      ['superfast', 'stitchable=1:vbv-init=0.500', '23'],
    ] as const) {
      const told = toldX264(outputArguments({ renditions, look, preset, cores: 2 }, [part], '/w'))
      const want = { params: [params], crf: [crf] }
      t.strictSame(Object.fromEntries(told), { '/w/360p.ts': want, '/w/720p.ts': want }, preset)
    }
  },
)
