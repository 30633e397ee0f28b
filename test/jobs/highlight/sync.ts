import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { ffmpeg } from '../../support/clips.ts'
import { frameColors } from '../../support/film-frames.ts'
import { highlightBench } from '../../support/highlight-run.ts'

/** Picture and sound of a whole film, each read from its own playlist as a player does. */

const run = promisify(execFile)
const RATE = 48_000

async function firstPts(playlist: string, stream: 'v' | 'a'): Promise<number> {
  const entries = ['-select_streams', `${stream}:0`, '-show_entries', 'packet=pts_time', '-of', 'csv=p=0']
  const { stdout } = await run('ffprobe', ['-v', 'error', '-read_intervals', '%+#8', ...entries, playlist])
  return Math.min(...stdout.split('\n').filter(Boolean).map(Number.parseFloat))
}

/** Where the sound becomes loud, in seconds of the stream's own time. */
async function clicksOf(playlist: string): Promise<number[]> {
  const { stdout } = await run(
    'ffmpeg',
    ['-nostdin', '-v', 'error', '-i', playlist, '-ac', '1', '-ar', String(RATE), '-f', 's16le', '-'],
    { encoding: 'buffer', maxBuffer: 1 << 26 },
  )
  const origin = await firstPts(playlist, 'a')
  const clicks: number[] = []
  for (let at = 0, last = -RATE; at < stdout.length / 2; at++) {
    if (Math.abs(stdout.readInt16LE(at * 2)) < 6000) continue
    if (at - last > RATE / 4) clicks.push(origin + at / RATE)
    last = at
  }
  return clicks
}

for (const transition of ['cut', 'crossfade'] as const) {
  t.test(`after ten clips with ${transition}, a click is heard when its flash is seen`, async (t) => {
    const bench = await highlightBench(t)
    const path = join(bench.folder, 'clip.mp4')
    // Each frame of 29.97 and each packet of 44.1 kHz ends a little off the film's frames: an error would add up.
    const picture = "color=black:s=160x90:r=30000/1001:d=1.5,drawbox=c=white:t=fill:enable='between(t,0.7,0.799)'"
    const sound = "aevalsrc='0.6*sin(2*PI*1500*t)*between(t,0.7007,0.8)':s=44100:d=1.5"
    await ffmpeg([
      ...['-f', 'lavfi', '-i', picture, '-f', 'lavfi', '-i', sound, '-c:v', 'libx264', '-preset', 'ultrafast'],
      ...['-pix_fmt', 'yuv420p', '-c:a', 'aac', path],
    ])
    const items = []
    for (let k = 0; k < 10; k++) items.push(await bench.videoOf(path, `clip-${k}`))
    const { exit, output } = await bench.run(items, { transition })
    t.equal(exit, 0, 'exits with 0', { output })
    const folder = await bench.checkout()
    const origin = await firstPts(join(folder, '180p.m3u8'), 'v')
    const bright = (await frameColors(join(folder, '180p.m3u8'))).map(([r]) => r > 128)
    const flashes = bright.flatMap((is, k) => (is && !bright[k - 1] ? [origin + k / 30] : []))
    const clicks = await clicksOf(join(folder, 'audio.m3u8'))
    t.equal(flashes.length, 10)
    t.equal(clicks.length, 10)
    for (const [k, flash] of flashes.entries()) {
      const apart = Math.abs(flash - (clicks[k] ?? Number.NaN))
      // A flash can be seen only at a frame of the film.
      t.ok(apart <= 0.02, `clip ${k}: ${(apart * 1000).toFixed(1)} ms apart`)
    }
  })
}
