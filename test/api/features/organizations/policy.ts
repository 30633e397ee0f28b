import t from 'tap'
import {
  boundsOfYear,
  containing,
  leavesNoOwner,
  memberActions,
} from '../../../../api/features/organizations/policy.ts'
import { decide } from '../../../../api/permissions/rule.ts'
import type { Role } from '../../../../lib/contract/roles.ts'

const ROLES: readonly Role[] = ['owner', 'admin', 'member']
const asking = (role: Role) => ({ userId: 'caller', role, platformAdmin: false })

/** Whom each role may change and remove, and to which roles it may change them. */
const MANAGES: Record<Role, readonly Role[]> = {
  owner: ['owner', 'admin', 'member'],
  admin: ['admin', 'member'],
  member: [],
}
for (const caller of ROLES) {
  for (const role of ROLES) {
    const manages = MANAGES[caller].includes(role)
    const expected = manages ? 'allowed' : 'rule_not_met'
    t.test(`the role ${caller} ${manages ? 'may' : 'may not'} change, give, or end the role ${role}`, async (t) => {
      const row = { userId: 'another', role }
      t.equal(decide(memberActions.changeRole, asking(caller), row), expected)
      t.equal(decide(memberActions.remove, asking(caller), row), expected)
    })
  }
  t.test(`the role ${caller} may leave, and gives itself no higher role`, async (t) => {
    const row = { userId: 'caller', role: caller }
    t.equal(decide(memberActions.remove, asking(caller), row), 'allowed')
    const higher = ROLES.slice(0, ROLES.indexOf(caller))
    for (const role of higher) {
      t.equal(decide(memberActions.changeRole, asking(caller), { ...row, role }), 'rule_not_met')
    }
  })
}

const OWNERS: [from: Role, to: Role | null, owners: number, leavesNone: boolean][] = [
  ['owner', 'admin', 1, true],
  ['owner', 'member', 1, true],
  ['owner', null, 1, true],
  ['owner', 'owner', 1, false],
  ['owner', 'admin', 2, false],
  ['owner', null, 2, false],
  ['admin', 'member', 1, false],
  ['member', null, 1, false],
  ['member', 'owner', 0, false],
]
for (const [from, to, owners, leavesNone] of OWNERS) {
  t.test(`${from} to ${to ?? 'no member'} among ${owners}: ${leavesNone ? 'no owner is left' : 'fine'}`, async (t) => {
    t.equal(leavesNoOwner({ from, to, owners }), leavesNone)
  })
}

t.test('a pattern finds its text anywhere, and wildcards only as themselves', async (t) => {
  const cases = [
    ['ann', '%ann%'],
    ['100%', String.raw`%100\%%`],
    ['a_b', String.raw`%a\_b%`],
    ['a\\', String.raw`%a\\%`],
    [String.raw`\%_`, String.raw`%\\\%\_%`],
  ] as const
  for (const [text, pattern] of cases) t.equal(containing(text), pattern)
})

t.test('a year begins and ends in UTC', async (t) => {
  t.strictSame(boundsOfYear(1999), { from: '1999-01-01T00:00:00Z', to: '2000-01-01T00:00:00Z' })
})
