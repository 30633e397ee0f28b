import t from 'tap'
import { admissionsOf, type OrganizationSeen, type WaitingRow } from '../../../../api/worker/runs/admission-plan.ts'

/** `a@3` is the row `a` that came in the third minute, `a@3*2` one that takes two slots. */
const row = (text: string): WaitingRow => {
  const [id = '', minute, slots = '1'] = text.split(/[@*]/)
  return { id, createdAt: new Date(Number(minute) * 60_000), slots: Number(slots) }
}
const organization = (admitted: number, ...waiting: string[]): OrganizationSeen => ({
  admitted,
  waiting: waiting.map(row),
})

const table: [string, number, OrganizationSeen[], string[]][] = [
  ['nothing waits', 2, [organization(1)], []],
  ['all slots are free', 2, [organization(0, 'a@1', 'b@2', 'c@3')], ['a', 'b']],
  ['one slot is left', 2, [organization(1, 'a@1', 'b@2')], ['a']],
  ['no slot is left', 2, [organization(2, 'a@1')], []],
  ['the cap is below the number of conversions', 2, [organization(5, 'a@1')], []],
  ['a full organization does not stop another', 1, [organization(1, 'a@1'), organization(0, 'b@2')], ['b']],
  [
    'organizations take turns, however long the line of one is',
    3,
    [organization(0, 'a@1', 'b@2', 'c@3', 'd@4'), organization(0, 'x@9', 'y@9')],
    ['a', 'x', 'b', 'y', 'c'],
  ],
  [
    'the organization with fewer conversions comes first',
    3,
    [organization(2, 'a@1', 'b@2'), organization(0, 'x@8', 'y@9')],
    ['x', 'y', 'a'],
  ],
  ['within a turn the oldest comes first', 1, [organization(0, 'x@5'), organization(0, 'a@4')], ['a', 'x']],
  ['a row takes several slots', 8, [organization(2, 'a@1*4', 'b@2', 'c@3', 'd@4')], ['a', 'b', 'c']],
  ['one that takes all waits for all', 8, [organization(1, 'a@1*8')], []],
  ['and gets them', 8, [organization(0, 'a@1*8', 'b@2')], ['a']],
  ['nothing overtakes it, or it would wait for ever', 8, [organization(1, 'a@1*8', 'b@2')], []],
  [
    'it does not stop another organization, whose turn comes first',
    8,
    [organization(0, 'a@1*4', 'b@2*4'), organization(0, 'x@9', 'y@9')],
    ['a', 'x', 'y', 'b'],
  ],
  ['at one moment the order is that of ids', 1, [organization(0, 'x@5'), organization(0, 'a@5')], ['a', 'x']],
]
for (const [name, max, organizations, expected] of table) {
  t.test(`${name}: ${expected.join(' ') || 'none'}`, async (t) => {
    t.strictSame(admissionsOf(organizations, max), expected)
    t.strictSame(admissionsOf([...organizations].reverse(), max), expected, 'in whatever order they are seen')
  })
}
