import t from 'tap'
import { chooseFrameRate, measuredRate } from '../../../jobs/ffmpeg/frame-rate.ts'
import { parseRational, rational, toText } from '../../../jobs/ffmpeg/rational.ts'
import {
  firstFrameOf,
  keyframeExpression,
  longestGop,
  segmentLayout,
  segmentLengths,
  timelineOf,
} from '../../../jobs/hls/timeline.ts'

const rates: [string, string, string, boolean][] = [
  ['30/1', '30/1', '30', false],
  ['30000/1001', '30000/1001', '30000/1001', false],
  // A phone's last frame is a little longer than the others.
  ['30/1', '17985/602', '30', false],
  ['2997/100', '2997/100', '30000/1001', false],
  ['120/1', '120/1', '60', false],
  ['240000/1001', '240000/1001', '60000/1001', false],
  ['1/1', '1/1', '10', false],
  ['30/1', '1200/59', '30', true],
  ['90000/1', '24833/1000', '25', true],
  ['1000/1', '90/1', '60', true],
  ['0/0', '0/0', '30', true],
]
for (const [base, average, want, variable] of rates) {
  t.test(`a base of ${base} and an average of ${average} are encoded at ${want}`, async (t) => {
    const got = chooseFrameRate({ base, average, interlaced: false })
    t.equal(toText(got.rate), want)
    t.equal(got.variable, variable)
  })
}

t.test('a file that claims more frames than it has is encoded at the rate that it has', async (t) => {
  const table: [number, number, string][] = [
    [60, 60, '60'],
    [60, 24, '60'],
    [60, 20, '20'],
    [30, 1, '10'],
    [10, 1, '10'],
  ]
  for (const [claimed, measured, want] of table) {
    const claim = { frameRate: rational(claimed), averageFrameRate: claimed, variableFrameRate: false }
    t.equal(toText(measuredRate(claim, measured).frameRate), want, `${claimed} claimed, ${measured} counted`)
  }
})

t.test('fields are not counted as frames', async (t) => {
  t.equal(toText(chooseFrameRate({ base: '50/1', average: '25/1', interlaced: true }).rate), '25')
})

t.test('at a whole rate every segment lasts exactly six seconds', async (t) => {
  for (const fps of [10, 15, 24, 25, 30, 50, 60]) {
    const timeline = timelineOf([{ frameRate: rational(fps) }], 6)
    t.strictSame(segmentLengths(segmentLayout(timeline, rational(fps), fps * 20), rational(fps)), [6, 6, 6, 2])
    t.equal(longestGop(timeline, rational(fps)), fps * 6)
  }
})

t.test('at 29.97 a boundary is at most one frame late and never drifts', async (t) => {
  const rate = rational(30000, 1001)
  const timeline = timelineOf([{ frameRate: rate }], 6)
  for (let k = 0; k < 2400; k++) {
    const late = (firstFrameOf(timeline, rate, k) * 1001) / 30000 - 6 * k
    if (late < 0 || late >= 1001 / 30000) t.fail(`segment ${k} begins ${late} s late`)
  }
  t.equal(firstFrameOf(timeline, rate, 1), 180)
  t.equal(firstFrameOf(timeline, rate, 6), 1079)
})

t.test('a rate and its half begin their segments at the same instants', async (t) => {
  const [full, half] = [rational(60000, 1001), rational(30000, 1001)]
  const timeline = timelineOf([{ frameRate: full }, { frameRate: half }], 6)
  for (let k = 0; k < 500; k++) t.equal(firstFrameOf(timeline, full, k), 2 * firstFrameOf(timeline, half, k))
  t.equal(keyframeExpression(timeline, full), 'expr:gte(n,2*ceil(n_forced*180000/1001))')
  t.equal(keyframeExpression(timeline, half), 'expr:gte(n,1*ceil(n_forced*180000/1001))')
})

t.test('a rational is read as ffprobe writes it, or not at all', async (t) => {
  t.strictSame(parseRational('60000/2002'), { num: 30000, den: 1001 })
  t.strictSame(parseRational('16:9'), { num: 16, den: 9 })
  for (const bad of ['0/0', '0/1', '1/0', 'N/A', '', undefined, 25]) t.equal(parseRational(bad), undefined)
})
