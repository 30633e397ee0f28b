import t from 'tap'
import * as z from 'zod'
import { mirrorPolicies, startMirror } from '../../../../api/features/retention/mirror.ts'
import { unlessPolicy } from '../../../../api/worker/unless-policy.ts'
import { API_VERSION, Conditions, type Kind } from '../../../../crds/kind.ts'
import { RETENTION_POLICIES } from '../../../../crds/retention-policy.ts'
import { RetentionRule, RetentionTarget } from '../../../../crds/retention-rules.ts'
import { openLocalCluster } from '../../../../local/cluster/local-cluster.ts'
import { startTestApi, uuidOf } from '../../../support/api.ts'
import { commandLine } from '../../../support/command-line.ts'
import { aMediaItem } from '../../../support/comments.ts'
import { NAMESPACE, testCluster } from '../../../support/conversion-world.ts'
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
const remove = (name: string) => cluster.delete(RETENTION_POLICIES, { namespace: NAMESPACE, name })
const mirrored = async () =>
  (await admin.query(`select target, name, suspended, purge_after::text as after from retention_policies order by 1`))
    .rows
/** Whether the sweep would do the work of the target. */
async function sweeps(): Promise<boolean> {
  let ran = false
  const task = {
    name: 'purge',
    run: async () => {
      ran = true
    },
  }
  await unlessPolicy(db, 'MediaTrash', task).run(0, new AbortController().signal)
  return ran
}

t.test('a cluster without the kind has no policies, and the sweep does the work', async (t) => {
  const bare = { ...deps, cluster: testCluster(t) }
  await admin.query(`insert into retention_policies (target, name, uid, rules, suspended, dry_run)
    values ('MediaTrash', 'left', 'u', '[]', false, false)`)
  t.notOk(await sweeps())
  const mirror = startMirror(bare)
  await mirror.refresh()
  await mirror.stop()
  t.strictSame(await mirrored(), [])
  t.ok(await sweeps())
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
