import { join } from 'node:path'
import t from 'tap'
import { highlightLadder } from '../../../jobs/highlight/canvas.ts'
import { parseMediaPlaylist } from '../../../jobs/hls/media-playlist.ts'
import { clipOf } from '../../support/clips.ts'
import { type ColorClip, colorItem, PALETTE } from '../../support/highlight-clips.ts'
import { frameColors, runsOf } from '../../support/highlight-frames.ts'
import { highlightBench } from '../../support/highlight-run.ts'

/** Highlights of items that are one colour each: every frame is decoded, so each join is seen exactly where it is. */

/** Rates and lengths that do not fit the highlight's own, and a clip shorter than a segment, a second and a crossfade. */
const CLIPS: Record<string, ColorClip> = {
  red: { rate: '30000/1001', seconds: 2 },
  green: { rate: '25', seconds: 1.2 },
  blue: { rate: '240', seconds: 0.3 },
  grey: { rate: '24', seconds: 1.5, options: ['-g', '5'] },
}

async function colorBench(t: Parameters<typeof highlightBench>[0], clips = 4) {
  const bench = await highlightBench(t)
  const items = []
  for (const [name, clip] of Object.entries(CLIPS).slice(0, clips)) items.push(await colorItem(bench, name, clip))
  return { bench, items }
}

t.test('every cut is at its frame', async (t) => {
  const { bench, items } = await colorBench(t)
  const { exit, output } = await bench.run(items, { segmentSeconds: 1 })
  t.equal(exit, 0, 'exits with 0', { output })
  const folder = await bench.checkout()
  t.strictSame(runsOf(await frameColors(join(folder, '180p.m3u8')), PALETTE), [
    ['red', 60],
    ['green', 36],
    ['blue', 9],
    ['grey', 45],
  ])
  // Keyframes are at 0, 30, 60, 90, 96, 105 and 135.
  t.strictSame(
    parseMediaPlaylist(await bench.text('180p.m3u8'))?.segments.map((s) => Math.round(s.seconds * 30)),
    [30, 30, 30, 15, 30, 15],
  )
})

t.test('crossfades take as many frames as planned, and begin and end with one item alone', async (t) => {
  const { bench, items } = await colorBench(t)
  const { exit, output } = await bench.run(items, { transition: 'crossfade' })
  t.equal(exit, 0, 'exits with 0', { output })
  const frames = await frameColors(join(await bench.checkout(), '180p.m3u8'))
  // 60 + 36 + 9 + 45 frames less crossfades of 15, 4 and 4.
  t.equal(frames.length, 127)
  t.equal((await bench.manifest()).hls.durationSec, 127 / 30)
  const redness = frames.map(([r, , b]) => r - b)
  t.ok((redness[45] ?? 0) > 140, 'the first frame of the crossfade is still red')
  const half = frames[52] ?? [0, 0, 0]
  t.ok(half[0] > 80 && half[0] < 150 && half[1] > 60 && half[1] < 130, `half way it is both: ${half}`)
  t.match(runsOf(frames.slice(60, 77), PALETTE), [['green', 17]])
  for (let k = 46; k < 60; k++) {
    if ((frames[k]?.[0] ?? 0) > (frames[k - 1]?.[0] ?? 0) + 3) t.fail(`frame ${k} is redder than the one before`)
  }
})

t.test('a fade goes through black and takes no time of its own', async (t) => {
  const { bench, items } = await colorBench(t, 3)
  const { exit, output } = await bench.run(items, { transition: 'fade' })
  t.equal(exit, 0, 'exits with 0', { output })
  const frames = await frameColors(join(await bench.checkout(), '180p.m3u8'))
  t.equal(frames.length, 105)
  for (const join of [60, 96]) {
    t.ok(Math.max(...(frames[join - 1] ?? [255])) < 40, `dark before frame ${join}`)
    t.ok(Math.max(...(frames[join] ?? [255])) < 40, `dark at frame ${join}`)
  }
  t.match(runsOf(frames.slice(20, 40), PALETTE), [['red', 20]])
})

/** Frames of an item in the tests of rates: its crossfade begins at frame 61, a thirtieth behind a whole second, where rounding shows. */
const FLICKERING = 76
/** Of the crossfade; in the rest too little of the item is left to be seen. */
const SEEN = 12

t.test('a crossfade goes on with the frame after the last one of the clip, at every rate', async (t) => {
  const bench = await highlightBench(t)
  const items: Awaited<ReturnType<typeof colorItem>>[] = []
  for (const rate of ['24', '30000/1001']) {
    const name = rate.replace('/', '-')
    const picture = `color=white:s=160x90:r=${rate}:d=3,drawbox=c=black:t=fill:enable='mod(n,2)'`
    const encoder = ['-c:v', 'libx264', '-preset', 'ultrafast', '-g', '10', '-pix_fmt', 'yuv420p']
    const path = await clipOf(['-f', 'lavfi', '-i', picture, ...encoder])
    items.push(await bench.videoOf(path, name, FLICKERING / 30))
    items.push({ ...(await colorItem(bench, 'black')), id: `after-${name}` })
  }
  const brightness = async (transition: 'cut' | 'crossfade') => {
    const { exit, output } = await bench.run(items, { transition, outputPrefix: `org/o/highlights/${transition}/v1/` })
    t.equal(exit, 0, 'exits with 0', { output })
    const prefix = `org/o/highlights/${transition}/v1/`
    const frames = await frameColors(join(await bench.checkout(prefix), '180p.m3u8'))
    const { items: placed } = await bench.manifest(prefix)
    return placed.map(({ startSec }) => frames.slice(Math.round(startSec * 30)).map(([r]) => r))
  }
  const [cut, crossfaded] = [await brightness('cut'), await brightness('crossfade')]
  for (const [k, { id }] of items.entries()) {
    if (k % 2 === 1) continue
    const isBright = (frames: readonly number[] | undefined, i: number) => {
      const left = 1 - Math.max(0, i - (FLICKERING - 15)) / 15
      return (frames?.[i] ?? Number.NaN) > 127 * left
    }
    for (let i = 15; i < FLICKERING - 15 + SEEN; i++) {
      if (isBright(cut[k], i) !== isBright(crossfaded[k], i)) t.fail(`frame ${i} of ${id} is another one`)
    }
  }
})

t.test('clips of noise that follow each other keep about to the bitrate of their rendition', async (t) => {
  const bench = await highlightBench(t)
  const noise = await clipOf([
    ...['-f', 'lavfi', '-i', 'color=gray:s=320x180:r=30:d=2,noise=alls=60:allf=t'],
    ...['-c:v', 'libx264', '-preset', 'ultrafast', '-crf', '20', '-pix_fmt', 'yuv420p'],
  ])
  // One source four times: its piece is encoded once.
  const item = await bench.videoOf(noise, 'noise', 2)
  const items = ['n1', 'n2', 'n3', 'n4'].map((id) => ({ ...item, id }))
  const { exit, output } = await bench.run(items)
  t.equal(exit, 0, 'exits with 0', { output })
  const [{ bytes = 0, name = '' } = {}] = (await bench.manifest()).hls.renditions
  const [rendition] = highlightLadder('landscape', [{ width: 320, height: 180 }], ['360p'])
  t.equal(name, rendition?.name)
  const share = (bytes * 8) / 8 / (rendition?.maxrate ?? 0)
  t.ok(share > 1 && share < 1.5, `bits in 8 s: ${share.toFixed(2)} of what maxrate allows`)
})
