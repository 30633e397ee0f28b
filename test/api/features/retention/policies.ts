import t from 'tap'
import * as z from 'zod'
import { TRASH } from '../../../../api/features/media/deletion/purge-queries.ts'
import { mirrorPolicies, startMirror } from '../../../../api/features/retention/mirror.ts'
import { sweepTarget } from '../../../../api/worker/sweep-target.ts'
import { API_VERSION, Conditions, type Kind } from '../../../../crds/kind.ts'
import { RETENTION_POLICIES } from '../../../../crds/retention-policy.ts'
import { RetentionRule, RetentionTarget } from '../../../../crds/retention-rules.ts'
import { openLocalCluster } from '../../../../local/cluster/local-cluster.ts'
import { startTestApi, uuidOf } from '../../../support/api.ts'
import { commandLine } from '../../../support/command-line.ts'
import { aMediaItem } from '../../../support/comments.ts'
import { NAMESPACE } from '../../../support/conversion-world.ts'
import { eventually } from '../../../support/eventually.ts'
import { quietLog } from '../../../support/quiet-log.ts'
import { shiftClock } from '../../../support/retention.ts'

/** What the worker and the API make of the policies of the cluster; holds by the command line. */
const api = await startTestApi(t)
const { database, call, people, org } = api
const { admin, worker: db } = database
const log = quietLog()

/** As much of the kind as the worker reads. */
const kind: Kind = {
  kind: RETENTION_POLICIES.kind,
  plural: RETENTION_POLICIES.plural,
  shortNames: ['rp'],
  categories: [],
  description: 'A policy',
  columns: [],
  spec: z.object({
    target: RetentionTarget,
    rules: z.array(RetentionRule),
    suspend: z.boolean().default(false),
    dryRun: z.boolean().default(false),
  }),
  status: z.object({ conditions: Conditions.optional() }),
}
const cluster = openLocalCluster({ closeGraceSeconds: 0, kinds: [kind] })
t.teardown(() => cluster.close())
const deps = { db, cluster, namespace: NAMESPACE, log }

const create = (name: string, target: string, after: string, spec: object = {}) =>
  cluster.create(RETENTION_POLICIES, {
    apiVersion: API_VERSION,
    kind: RETENTION_POLICIES.kind,
    metadata: { name, namespace: NAMESPACE },
    spec: { target, rules: [{ after, action: 'purge' }], ...spec },
  })
/** As a list has it. */
const aPolicy = (name: string, target: unknown, spec: object = {}) => ({
  metadata: { name, uid: name, creationTimestamp: '2026-01-01T00:00:00Z' },
  spec: { target, rules: [{ after: 'P1Y', action: 'purge' }], suspend: true, ...spec },
})
const listing = (list: () => Promise<object[]>) => ({
  ...deps,
  cluster: { ...cluster, list: list as typeof cluster.list },
})
const remove = (name: string) => cluster.delete(RETENTION_POLICIES, { namespace: NAMESPACE, name })
const mirrored = async () =>
  (await admin.query(`select target, name, suspended, purge_after::text as after from retention_policies order by 1`))
    .rows
/** Whether the sweep would do the work of the target. */
const sweeps = async () => (await sweepTarget({ db, log }, TRASH, 'P30D', async () => true)) ?? false

const without = openLocalCluster({ closeGraceSeconds: 0, kinds: [] })
t.teardown(() => without.close())
const bare = { ...deps, cluster: without }
/** As if so much time had passed since the cluster said for the first time, and the last, that it does not know the kind. */
const saidAgo = (first: string, last: string) =>
  admin.query(
    'update retention_mirror set not_served_since = now() - $1::interval, not_served_at = now() - $2::interval',
    [first, last],
  )

const versionOf = async () => Number((await admin.query('select version from retention_mirror')).rows[0].version)

t.test('a cluster that never had the kind has no policies, and the sweep does the work', async (t) => {
  const mirror = startMirror(bare)
  await mirror.refresh()
  await mirror.stop()
  t.strictSame(await mirrored(), [])
  t.ok(await sweeps())
})

t.test('a cluster that stops knowing the kind had policies until it has said so for a while', async (t) => {
  const left = () =>
    admin.query(`insert into retention_policies (target, name, uid, rules, suspended, dry_run)
      values ('MediaTrash', 'left', 'u', '[]', false, false)`)
  const mirror = () => mirrorPolicies(bare)
  await left()
  await mirrorPolicies(listing(async () => []))
  t.strictSame(await mirrored(), [], 'one that knows it, and has none, is believed at once')
  await left()
  for (const [what, first, last] of [
    ['the first time', undefined, undefined],
    ['a moment later', '14 minutes', '1 minute'],
    ['after a pause in which no one looked', '3 days', '121 minutes'],
    ['after a clock that jumped', '100 years', '100 years'],
    ['and was set back', '-100 years', '-100 years'],
  ] as const) {
    if (first !== undefined) await saidAgo(first, last)
    await t.rejects(mirror(), { message: /does not know/ }, what)
    t.equal((await mirrored()).length, 1, what)
    t.notOk(await sweeps(), what)
  }
  await saidAgo('16 minutes', '1 minute')
  await mirrorPolicies(listing(async () => [aPolicy('left', 'MediaTrash')]))
  await t.rejects(mirror(), 'an answer in between begins it anew')
  await saidAgo('16 minutes', '1 minute')
  await t.rejects(mirrorPolicies(listing(() => Promise.reject(new Error('no answer')))))
  await t.rejects(mirror(), 'and so does no answer')
  await saidAgo('16 minutes', '1 minute')
  await Promise.all([mirror(), mirror()])
  t.strictSame(await mirrored(), [])
  t.ok(await sweeps())
  await mirror()
})

t.test('the sweep leaves a target to its policy, suspended or not, and takes over when that is gone', async (t) => {
  const mirror = startMirror(deps)
  t.teardown(() => mirror.stop())
  await create('trash', 'MediaTrash', 'P10D')
  await eventually('the policy', async () => (await mirrored()).length === 1)
  t.match(await mirrored(), [{ target: 'MediaTrash', name: 'trash', suspended: false, after: '10 days' }])
  t.notOk(await sweeps())
  await cluster.patch(RETENTION_POLICIES, { namespace: NAMESPACE, name: 'trash' }, { spec: { suspend: true } })
  await eventually('its suspension', async () => (await mirrored())[0]?.suspended === true)
  t.notOk(await sweeps())
  await create('younger', 'MediaTrash', 'P1D')
  await mirror.refresh()
  t.match(await mirrored(), [{ name: 'trash' }], 'the older one is in force')
  await remove('trash')
  await eventually('the other one', async () => (await mirrored())[0]?.name === 'younger')
  await remove('younger')
  await eventually('none', async () => (await mirrored()).length === 0)
  t.ok(await sweeps())
})

t.test('a cluster that does not answer changes nothing', async (t) => {
  await create('trash', 'MediaTrash', 'P10D')
  await mirrorPolicies(deps)
  const away = { ...cluster, list: () => Promise.reject(new Error('no answer')) }
  await t.rejects(mirrorPolicies({ ...deps, cluster: away }))
  t.equal((await mirrored()).length, 1)
  await remove('trash')
  await mirrorPolicies(deps)
})

t.test('a list that was read before another one was written does not replace it', async (t) => {
  const asked = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  let lists = 0
  const slow = mirrorPolicies(
    listing(async () => {
      lists += 1
      if (lists > 1) return [aPolicy('new', 'MediaTrash')]
      asked.resolve()
      await gate.promise
      return []
    }),
  )
  await asked.promise
  await mirrorPolicies(listing(async () => [aPolicy('new', 'MediaTrash')]))
  gate.resolve()
  await slow
  t.equal(lists, 2, 'it looked again')
  t.match(await mirrored(), [{ name: 'new' }])
  const before = await versionOf()
  const latest = ['a', 'b', 'c', 'd'].map((name) => mirrorPolicies(listing(async () => [aPolicy(name, 'MediaTrash')])))
  await Promise.all(latest)
  t.equal((await mirrored()).length, 1)
  t.equal(await versionOf(), before + 4, 'each of four at once is written')
  await mirrorPolicies(listing(async () => []))
})

t.test('a list that hangs is given up, and keeps no other from being written', async (t) => {
  const hangs = mirrorPolicies(
    listing(() => new Promise(() => {})),
    { listMs: 200 },
  )
  await mirrorPolicies(listing(async () => [aPolicy('a', 'MediaTrash')]))
  t.match(await mirrored(), [{ name: 'a' }])
  await t.rejects(hangs, { message: /within 200 ms/ })
  await mirrorPolicies(listing(async () => []))
})

t.test('a policy that cannot be read keeps its target, and hides no other', async (t) => {
  const strange = { rules: [{ after: 'P1D', action: 'archive' }] }
  await mirrorPolicies(listing(async () => [aPolicy('b', 'MediaTrash', strange), aPolicy('a', 'Uploads')]))
  const both = [
    { target: 'MediaTrash', name: 'b', after: null },
    { target: 'Uploads', name: 'a', after: '1 year' },
  ]
  t.match(await mirrored(), both, 'never purged: no one knows when')
  t.notOk(await sweeps())
  await mirrorPolicies(listing(async () => [aPolicy('b', 'MediaTrash', strange), aPolicy('a', 'Uploads', strange)]))
  t.match(await mirrored(), both, 'what was read of it before stays')
  await t.rejects(
    mirrorPolicies(listing(async () => [aPolicy('c', undefined)])),
    { message: /its target/ },
    'so nothing purges without it',
  )
  t.match(await mirrored(), both, 'one that names no target may be about any')
  await mirrorPolicies(listing(async () => [aPolicy('e', 'Chronicles'), aPolicy('f', 'Uploads', strange)]))
  t.match(await mirrored(), [{ target: 'Uploads', name: 'f', after: null }], 'another policy is not the one before')
  await mirrorPolicies(listing(async () => []))
})

t.test('purge_at and the time to restore are those of the policy in force', async (t) => {
  const id = await aMediaItem(api, { orgId: uuidOf('organization', org), uploader: people.member })
  await call(people.member, 'DELETE', `/api/media/${org}/${id}`)
  const shown = async () => {
    const { media } = (await call(people.member, 'GET', `/api/media/${org}/trash`)).data
    const [item] = media as { deleted_at: string; purge_at: string }[]
    return item && (Date.parse(item.purge_at) - Date.parse(item.deleted_at)) / 86_400_000
  }
  const restore = () => call(people.member, 'POST', `/api/media/${org}/${id}/restore`)
  t.equal(await shown(), 30, 'the specification’s without a policy')
  await create('trash', 'MediaTrash', 'P7D')
  await mirrorPolicies(deps)
  t.equal(await shown(), 7)
  await shiftClock(admin, '8 days')
  t.equal(await shown(), undefined)
  t.match(await restore(), { status: 422, code: 'RESTORE_WINDOW_EXPIRED' })
  await remove('trash')
  await create('trash', 'MediaTrash', 'P60D')
  await mirrorPolicies(deps)
  t.equal(await shown(), 60, 'a longer one shows it again')
  await shiftClock(admin, '59 days')
  t.equal((await restore()).status, 200)
  await shiftClock(admin, '0')
  await remove('trash')
  await mirrorPolicies(deps)
})

t.test('no role of a program can move the clock', async (t) => {
  await shiftClock(admin, '0')
  for (const one of [database.db, db]) {
    const move = one.inTransaction({}, (tx) => tx.execute(`update test_clock.shift set by = '1 year'`))
    await t.rejects(move, { cause: { code: '42501' } })
  }
})

t.test('holds by the command line', async (t) => {
  const env = { DATABASE_URL: database.url }
  const given = ['--reason', 'Case 12/26', '--by', 'Legal']
  const added = await commandLine(['hold', 'add', 'organization', org, ...given], env)
  t.match(added, {
    code: 0,
    out: { kind: 'organization', subject: org, reason: 'Case 12/26', by: 'Legal', added: true },
  })
  t.match(await commandLine(['hold', 'add', 'organization', org, ...given], env), {
    code: 0,
    out: { hold_id: added.out.hold_id, added: false },
  })
  t.match(await commandLine(['hold', 'list'], env), {
    out: { holds: [{ hold_id: added.out.hold_id, released_at: null }] },
  })
  for (const [args, code] of [
    [['hold', 'add', 'album', org, ...given], 2],
    [['hold', 'add', 'person', org, ...given], 2],
    [['hold', 'add', 'organization', org, '--by', 'Legal'], 2],
    [['hold', 'add', 'organization', org, '--reason', 'x'.repeat(201), '--by', 'Legal'], 2],
    [['hold', 'add', 'event', 'evt_00000000000000000000000000', ...given], 3],
    [['hold', 'release', 'hld_00000000000000000000000000'], 3],
  ] as const) {
    t.equal((await commandLine([...args], env)).code, code, args.join(' '))
  }
  t.match(await commandLine(['hold', 'release', added.out.hold_id], env), { code: 0, out: { released: true } })
  t.match(await commandLine(['hold', 'release', added.out.hold_id], env), { code: 0, out: { released: false } })
  t.match(await commandLine(['hold', 'list'], env), { out: { holds: [] } })
  t.match(await commandLine(['hold', 'list', '--all'], env), { out: { holds: [{ hold_id: added.out.hold_id }] } })
})
