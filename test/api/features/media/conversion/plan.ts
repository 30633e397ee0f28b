import t from 'tap'
import {
  type ConversionSeen,
  progressMove,
  type RunningConversion,
} from '../../../../../api/features/media/conversion/plan.ts'

const start = new Date('2026-05-01T10:00:00Z')
const later = new Date('2026-05-01T11:00:00Z')
const at = (percent: number, speed = '1x') => ({ percent, speed, eta_sec: 10, stage: 'Encoding' })
const now = (change: Partial<RunningConversion> = {}): RunningConversion => ({
  startedAt: start,
  attempts: 1,
  progress: at(50),
  ...change,
})
const row = (change: Partial<ConversionSeen> = {}): ConversionSeen => ({
  conversionState: 'running',
  conversionAttempts: 1,
  conversionStartedAt: start,
  conversionProgress: at(50),
  ...change,
})

const table: [string, ConversionSeen, RunningConversion, { percent: number | null; attempts: number } | undefined][] = [
  [
    'the first news of a run count',
    row({ conversionState: 'queued', conversionAttempts: 0, conversionStartedAt: null, conversionProgress: null }),
    now({ progress: null }),
    { percent: null, attempts: 1 },
  ],
  ['a higher percentage counts', row(), now({ progress: at(51) }), { percent: 51, attempts: 1 }],
  ['a lower percentage of the same attempt is old', row(), now({ progress: at(49) }), undefined],
  ['the same again is no news', row(), now(), undefined],
  ['another speed at the same percentage counts', row(), now({ progress: at(50, '2x') }), { percent: 50, attempts: 1 }],
  ['another attempt begins at nothing', row(), now({ attempts: 2, progress: null }), { percent: null, attempts: 2 }],
  ['an earlier attempt is old', row({ conversionAttempts: 2 }), now({ progress: at(99) }), undefined],
  ['no progress in the same attempt takes nothing away', row(), now({ progress: null }), undefined],
  [
    'a resource made anew counts though its attempts begin again',
    row({ conversionAttempts: 3 }),
    now({ startedAt: later, progress: at(1) }),
    { percent: 1, attempts: 1 },
  ],
  ['what is left of the resource before is old', row({ conversionStartedAt: later }), now({ attempts: 3 }), undefined],
]
for (const [name, seen, running, expected] of table) {
  t.test(name, async (t) => {
    const move = progressMove(seen, running)
    t.strictSame(
      move && { percent: move.conversionProgress?.percent ?? null, attempts: move.conversionAttempts },
      expected,
    )
    if (move) t.equal(progressMove({ ...seen, ...move }, running), undefined, 'and it counts once')
  })
}
