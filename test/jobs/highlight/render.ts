import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { clip } from '../../support/clips.ts'
import { highlightBench } from '../../support/highlight-run.ts'
import { quarters } from '../../support/pictures.ts'

/** Whole highlights of small clips, rendered by the real program and played again. */

const run = promisify(execFile)

/** Decodes a rendition as a player would, beginning with its playlist, and counts its frames. */
async function framesOf(playlist: string): Promise<{ frames: number; damaged: string; width: number; height: number }> {
  const entries = ['-select_streams', 'v:0', '-show_entries', 'stream=nb_read_frames,width,height', '-of', 'json']
  const { stdout, stderr } = await run('ffprobe', ['-v', 'error', '-count_frames', ...entries, playlist])
  const { nb_read_frames, width, height } = JSON.parse(stdout).streams[0]
  return { frames: Number(nb_read_frames), damaged: stderr, width, height }
}

t.test('videos and photos of every shape become one highlight', async (t) => {
  const bench = await highlightBench(t)
  const picture = await quarters(300, 400).jpeg().toBuffer()
  const items = [
    await bench.videoOf(await clip('upright'), 'landscape'),
    await bench.videoOf(await clip('rotated'), 'rotated'),
    await bench.imageOf(picture, 'photo'),
    await bench.videoOf(await clip('silent'), 'silent', 1),
    await bench.videoOf(await clip('variable'), 'variable', 0.5),
    await bench.videoOf(await clip('odd'), 'odd'),
  ]
  const { exit, result, output } = await bench.run(items)
  t.equal(exit, 0, 'exits with 0', { output })
  t.strictSame(result?.outputs, [{ id: 'hlt_1', state: 'Succeeded', manifestKey: `${bench.prefix}manifest.json` }])
  const manifest = await bench.manifest()
  t.match(manifest.hls, { durationSec: 5.5, renditions: [{ name: '360p', frameRate: 30 }] })
  t.strictSame(
    manifest.items.map((i) => [i.id, i.startSec, i.seconds]),
    [
      ['landscape', 0, 1],
      ['rotated', 1, 1],
      ['photo', 2, 1],
      ['silent', 3, 1],
      ['variable', 4, 0.5],
      ['odd', 4.5, 1],
    ],
  )
  const folder = await bench.checkout()
  t.strictSame(await framesOf(join(folder, '360p.m3u8')), { frames: 165, damaged: '', width: 640, height: 360 })
  t.strictSame(await bench.leftovers(), [])
})
