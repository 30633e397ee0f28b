import t from 'tap'
import {
  boundsOfYear,
  containing,
  isLastOwner,
  memberActions,
  unlessLastOwner,
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

const OWNERS: [role: Role, owners: number, isLast: boolean][] = [
  ['owner', 1, true],
  ['owner', 2, false],
  ['admin', 1, false],
  ['member', 1, false],
  ['member', 0, false],
]
for (const [role, owners, isLast] of OWNERS) {
  t.test(`a member with role ${role} among ${owners} owners: ${isLast ? 'stays owner' : 'may change'}`, async (t) => {
    t.equal(isLastOwner({ role }, owners), isLast)
    t.match(unlessLastOwner({ isLastOwner: isLast }), isLast ? { code: 'CONFLICT' } : undefined)
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
