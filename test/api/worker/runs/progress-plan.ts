import t from 'tap'
import { progressMove, type Running, type RunSeen } from '../../../../api/worker/runs/progress-plan.ts'

const start = new Date('2026-05-01T10:00:00Z')
const later = new Date('2026-05-01T11:00:00Z')
const at = (percent: number, speed = '1x') => ({ percent, speed, eta_sec: 10, stage: 'Encoding' })
const now = (change: Partial<Running> = {}): Running => ({
  startedAt: start,
  attempts: 1,
  progress: at(50),
  ...change,
})
const row = (change: Partial<RunSeen> = {}): RunSeen => ({
  state: 'running',
  attempts: 1,
  startedAt: start,
  progress: at(50),
  ...change,
})

const table: [string, RunSeen, Running, { percent: number | null; attempts: number } | undefined][] = [
  [
    'the first news of a run count',
    row({ state: 'queued', attempts: 0, startedAt: null, progress: null }),
    now({ progress: null }),
    { percent: null, attempts: 1 },
  ],
  ['a higher percentage counts', row(), now({ progress: at(51) }), { percent: 51, attempts: 1 }],
  ['a lower percentage of the same attempt is old', row(), now({ progress: at(49) }), undefined],
  ['the same again is no news', row(), now(), undefined],
  ['another speed at the same percentage counts', row(), now({ progress: at(50, '2x') }), { percent: 50, attempts: 1 }],
  ['another attempt begins at nothing', row(), now({ attempts: 2, progress: null }), { percent: null, attempts: 2 }],
  ['an earlier attempt is old', row({ attempts: 2 }), now({ progress: at(99) }), undefined],
  ['no progress in the same attempt takes nothing away', row(), now({ progress: null }), undefined],
  [
    'a resource made anew counts though its attempts begin again',
    row({ attempts: 3 }),
    now({ startedAt: later, progress: at(1) }),
    { percent: 1, attempts: 1 },
  ],
  ['what is left of the resource before is old', row({ startedAt: later }), now({ attempts: 3 }), undefined],
]
for (const [name, seen, running, expected] of table) {
  t.test(name, async (t) => {
    const move = progressMove(seen, running)
    t.strictSame(move && { percent: move.progress?.percent ?? null, attempts: move.attempts }, expected)
    if (move) t.equal(progressMove({ ...seen, ...move }, running), undefined, 'and it counts once')
  })
}
