import { readFile } from 'node:fs/promises'
import t from 'tap'
import { parse } from 'yaml'
import { parseRational, rational } from '../../../jobs/ffmpeg/rational.ts'
import { LIMITS } from '../../../jobs/ffmpeg/source.ts'
import { AUDIO_BITRATE } from '../../../jobs/hls/encode-pass.ts'
import { ladderOf } from '../../../jobs/hls/ladder.ts'
import { loadConfig } from '../../../lib/runtime/config.ts'
import { OperatorConfig } from '../../../operator/config.ts'
import { bytesOf } from '../../../operator/jobs/quantity.ts'
import { operatorEnv } from '../../support/operator-world.ts'

const all = ['360p', '720p', '1080p']
const brief = (width: number, height: number, fps: string, wanted = all) =>
  ladderOf({ width, height, frameRate: parseRational(fps) ?? rational(1) }, wanted).map(
    (r) => `${r.name} ${r.width}x${r.height}@${(r.frameRate.num / r.frameRate.den).toFixed(2)}`,
  )

const table: [string, string[], string[]][] = [
  [
    'full HD gets all three',
    brief(1920, 1080, '30'),
    ['360p 640x360@30.00', '720p 1280x720@30.00', '1080p 1920x1080@30.00'],
  ],
  ['4K is not kept', brief(3840, 2160, '24'), ['360p 640x360@24.00', '720p 1280x720@24.00', '1080p 1920x1080@24.00']],
  ['nothing above the short side', brief(1280, 720, '25'), ['360p 640x360@25.00', '720p 1280x720@25.00']],
  ['a portrait scales its width', brief(608, 1080, '30'), ['360p 360x640@30.00']],
  [
    'a tall portrait has all three',
    brief(1080, 2340, '30'),
    ['360p 360x780@30.00', '720p 720x1560@30.00', '1080p 1080x2340@30.00'],
  ],
  ['a small source keeps its own size', brief(426, 240, '30'), ['240p 426x240@30.00']],
  ['odd sizes become even', brief(241, 427, '30'), ['240p 240x426@30.00']],
  [
    '60 frames are halved for the small ones',
    brief(1920, 1080, '60'),
    ['360p 640x360@30.00', '720p 1280x720@30.00', '1080p 1920x1080@60.00'],
  ],
  ['50 frames too', brief(1920, 1080, '50'), ['360p 640x360@25.00', '720p 1280x720@25.00', '1080p 1920x1080@50.00']],
  ['NTSC stays exact', brief(1920, 1080, '60000/1001', ['360p']), ['360p 640x360@29.97']],
  [
    'only what is wanted',
    brief(1920, 1080, '30', ['1080p', '360p', '360p']),
    ['360p 640x360@30.00', '1080p 1920x1080@30.00'],
  ],
  ['nothing wanted fits: its own size', brief(640, 480, '30', ['720p', '1080p']), ['480p 640x480@30.00']],
]
for (const [name, got, want] of table) t.test(name, async (t) => t.strictSame(got, want))

t.test('no rendition is ever larger than its source, and all sizes are even', async (t) => {
  for (let width = 16; width < 2200; width += 97) {
    for (let height = 16; height < 2200; height += 89) {
      for (const r of ladderOf({ width, height, frameRate: rational(30) }, all)) {
        const fits = r.width <= width + 1 && r.height <= height + 1 && r.width % 2 === 0 && r.height % 2 === 0
        if (!fits || r.width < 2 || r.height < 2) t.fail(`${width}x${height} became ${r.width}x${r.height}`)
      }
    }
  }
  t.pass('all sizes checked')
})

/** What MPEG-TS adds, and a buffer that is not yet full. */
const CONTAINER = 1.05

t.test(
  'the largest upload and four hours of all renditions at their highest rates fit into the space of an attempt',
  async (t) => {
    const rates = ['24', '30', '30.5', '48', '60'].map((fps) =>
      ladderOf({ width: 3840, height: 2160, frameRate: parseRational(fps) ?? rational(1) }, all)
        .map(({ maxrate }) => maxrate)
        .reduce((sum, rate) => sum + rate, AUDIO_BITRATE),
    )
    const bytes = LIMITS.bytes + (CONTAINER * Math.max(...rates) * LIMITS.seconds) / 8
    const { JOB_SCRATCH } = loadConfig(OperatorConfig, operatorEnv())
    const values = parse(await readFile(new URL('../../../charts/keepsake/values.yaml', import.meta.url), 'utf8'))
    t.equal(values.jobs.scratch, JOB_SCRATCH)
    t.ok(bytesOf(JOB_SCRATCH) > bytes, `${JOB_SCRATCH} for ${(bytes / 2 ** 30).toFixed(1)} GiB`)
  },
)
