import t from 'tap'
import { daysOf, faultOfRules, RetentionRule, type RetentionTarget } from '../../crds/retention-rules.ts'

const DURATIONS: [text: string, days: number | undefined][] = [
  ['P1D', 1],
  ['P30D', 30],
  ['P1M', 30],
  ['P1Y', 365],
  ['P2Y6M', 910],
  ['P1Y2M3W4D', 365 + 60 + 21 + 4],
  ['P100Y', 36_500],
  ['P99999D', 99_999],
  ['P0D', 0],
  ['P', undefined],
  ['', undefined],
  ['30D', undefined],
  ['P30', undefined],
  ['P1D1Y', undefined],
  ['P1D1D', undefined],
  ['PT1H', undefined],
  ['P1DT1H', undefined],
  ['P-1D', undefined],
  ['P1.5Y', undefined],
  ['p1d', undefined],
  ['P100000D', undefined],
  ['P1D ', undefined],
]

t.test('a duration of days is counted with 365 days to the year and 30 to the month', async (t) => {
  for (const [text, days] of DURATIONS) t.equal(daysOf(text), days, JSON.stringify(text))
})

t.test('a rule is due after one day at the earliest and after 100 years at the latest', async (t) => {
  for (const after of ['P1D', 'P100Y', 'P36500D']) {
    t.ok(RetentionRule.safeParse({ after, action: 'purge' }).success, after)
  }
  for (const after of ['P0D', 'P0Y0D', 'P101Y', 'P36501D', 'P100Y1D', 'PT1H', 'P', 7]) {
    t.notOk(RetentionRule.safeParse({ after, action: 'purge' }).success, String(after))
  }
})

type Short = [after: string, to: 'purge' | 'warm' | 'cold' | 'move' | 'purge to cold']
const rules = (...all: Short[]): RetentionRule[] =>
  all.map(([after, to]) => {
    if (to === 'purge') return { after, action: 'purge' }
    if (to === 'move') return { after, action: 'moveToTier' }
    if (to === 'purge to cold') return { after, action: 'purge', tier: 'cold' }
    return { after, action: 'moveToTier', tier: to }
  })

const RULES: [target: RetentionTarget, rules: Short[], fault: RegExp | undefined][] = [
  ['MediaTrash', [['P30D', 'purge']], undefined],
  ['Uploads', [['P1D', 'purge']], undefined],
  [
    'EventArchive',
    [
      ['P2Y', 'cold'],
      ['P7Y', 'purge'],
    ],
    undefined,
  ],
  ['EventArchive', [['P2Y', 'cold']], undefined],
  [
    'AuditLog',
    [
      ['P90D', 'warm'],
      ['P2Y', 'cold'],
      ['P7Y', 'purge'],
    ],
    undefined,
  ],
  [
    'AuditLog',
    [
      ['P30D', 'warm'],
      ['P1M1D', 'cold'],
    ],
    undefined,
  ],
  [
    'AuditLog',
    [
      ['P1M', 'warm'],
      ['P30D', 'cold'],
    ],
    /longer/,
  ],
  [
    'AuditLog',
    [
      ['P1Y', 'warm'],
      ['P365D', 'cold'],
    ],
    /longer/,
  ],
  [
    'EventArchive',
    [
      ['P7Y', 'cold'],
      ['P2Y', 'purge'],
    ],
    /longer/,
  ],
  [
    'EventArchive',
    [
      ['P2Y', 'purge'],
      ['P7Y', 'cold'],
    ],
    /purge must be the last/,
  ],
  [
    'EventArchive',
    [
      ['P2Y', 'purge'],
      ['P7Y', 'purge'],
    ],
    /purge must be the last/,
  ],
  ['EventArchive', [['P2Y', 'move']], /tier must be set/],
  ['EventArchive', [['P2Y', 'purge to cold']], /tier must be set/],
  [
    'AuditLog',
    [
      ['P2Y', 'cold'],
      ['P3Y', 'warm'],
    ],
    /warm comes before cold/,
  ],
  [
    'AuditLog',
    [
      ['P2Y', 'cold'],
      ['P3Y', 'cold'],
    ],
    /once/,
  ],
  ['EventArchive', [['P2Y', 'warm']], /EventArchive does not move to the tier warm/],
  ...(['MediaTrash', 'Uploads', 'PieceCache', 'Notifications'] as const).map(
    (target): [RetentionTarget, Short[], RegExp] => [target, [['P2Y', 'cold']], /does not move to the tier cold/],
  ),
]

t.test('rules are in order, move to tiers of the target and purge last', async (t) => {
  for (const [target, short, fault] of RULES) {
    const found = faultOfRules(target, rules(...short))
    const name = `${target} ${JSON.stringify(short)}`
    if (fault) t.match(found, fault, name)
    else t.equal(found, undefined, name)
  }
})
