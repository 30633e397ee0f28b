import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { closeAccount } from '../../api/features/erasure/commands.ts'
import { changeRole } from '../../api/features/organizations/commands.ts'
import { newUuid, parseId, type Uuid } from '../../lib/contract/ids.ts'
import { identityUsers, seed } from '../../local/seeds.ts'
import { openSettings } from '../../local/settings.ts'
import { testDatabase } from '../support/database.ts'

const folder = await mkdtemp(join(tmpdir(), 'keepsake-seeds-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
const { worker, admin } = await testDatabase(t)
const settings = await openSettings(folder, 1234)

t.test('secrets are made once, kept, and nobody else can read them', async (t) => {
  t.strictSame(await openSettings(folder, 9999), settings)
  t.equal((await stat(join(folder, 'settings.json'))).mode & 0o777, 0o600)
  const other = await openSettings(await mkdtemp(join(folder, 'other-')), 1234)
  t.not(other.cursorKey, settings.cursorKey)
  t.not(other.accounts.member.password, settings.accounts.member.password)
})

t.test('the accounts are those of two organizations and one who belongs to none', async (t) => {
  const made = await seed(worker, settings)
  const [first, second] = made.organizations.map((o) => o.org_id)
  const memberships = Object.entries(made.accounts).map(([name, a]) => [name, ...a.organizations])
  t.strictSame(memberships, [
    ['owner', { org_id: first, role: 'owner' }],
    ['member', { org_id: first, role: 'member' }],
    ['admin', { org_id: first, role: 'admin' }],
    ['outsider', { org_id: second, role: 'member' }],
    ['platform_admin'],
  ])
  const { rows } = await admin.query('select count(*)::int as n from memberships')
  t.equal(rows[0].n, 4)
  const platformAdmin = identityUsers(settings).find((u) => u.roles.includes('ROLE_ADMIN'))
  t.equal(platformAdmin?.id, parseId('user', made.accounts.platform_admin.user_id))
})

t.test('a second time makes nothing new and undoes no change', async (t) => {
  const before = await seed(worker, settings)
  const count = async () =>
    (
      await admin.query(
        'select (select count(*) from organizations) + (select count(*) from users) + (select count(*) from audit_log) as n',
      )
    ).rows[0].n
  const orgId = parseId('organization', before.organizations[0]?.org_id ?? '') ?? ''
  const user = before.accounts.member.user_id
  await changeRole(worker, { orgId, user, role: 'admin', issuer: undefined })
  const rows = await count()
  const after = await seed(worker, settings)
  t.equal(await count(), rows)
  t.equal(after.accounts.member.organizations[0]?.role, 'admin')
  t.strictSame(after.organizations, before.organizations)
})

t.test('a membership that ended and an account that was erased stay so', async (t) => {
  const { accounts } = await seed(worker, settings)
  const idOf = (name: keyof typeof accounts): Uuid => parseId('user', accounts[name].user_id) ?? ''
  await admin.query('delete from memberships where user_id = $1', [idOf('outsider')])
  const erasure = {
    id: newUuid(),
    userId: idOf('member'),
    askedBy: 'user',
    administratorId: null,
    reason: null,
  } as const
  await worker.inTransaction({ user: erasure.userId }, (tx) => closeAccount(tx, erasure, 'key'))
  const after = await seed(worker, settings)
  t.strictSame(
    Object.entries(after.accounts).map(([name, { organizations }]) => [name, organizations.map(({ role }) => role)]),
    [
      ['owner', ['owner']],
      ['member', []],
      ['admin', ['admin']],
      ['outsider', []],
      ['platform_admin', []],
    ],
  )
  t.strictSame(after.organizations, (await seed(worker, settings)).organizations)
})
