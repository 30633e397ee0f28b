import { fileURLToPath } from 'node:url'
import { KubeConfig } from '@kubernetes/client-node'
import t from 'tap'
import { RETENTION_POLICIES } from '../../../crds/retention-policy.ts'
import type { KubeObject } from '../../../lib/runtime/kube/cluster.ts'
import { openKubeCluster } from '../../../lib/runtime/kube/kube-cluster.ts'
import { established } from '../../support/established.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { newRetentionPolicy } from '../../support/retention-policy.ts'
import { answer } from '../api-answer.ts'
import { controlPlane } from '../support.ts'

t.setTimeout(600_000)
const plane = await controlPlane(t)
await plane.kubectl(
  'apply',
  '--server-side',
  '-f',
  fileURLToPath(new URL('../../../crds/retentionpolicies.yaml', import.meta.url)),
)
await established(plane.kubectl, 'crd', '--all')
const config = new KubeConfig()
config.loadFromFile(plane.kubeconfig)
const kube = openKubeCluster({ log: quietLog(), config })
t.teardown(() => kube.close())

const namespace = 'default'
let made = 0
const create = (spec: object) =>
  kube.create<KubeObject>(
    RETENTION_POLICIES,
    newRetentionPolicy({ metadata: { name: `rp-${made++}`, namespace }, spec }) as KubeObject,
  )

const purge = (after: string) => ({ after, action: 'purge' })
const move = (after: string, tier: string) => ({ after, action: 'moveToTier', tier })
const audit = (...rules: object[]) => ({ target: 'AuditLog', rules })
const events = (...rules: object[]) => ({ target: 'EventArchive', rules })

const ACCEPTED: [string, object][] = [
  ['the least there can be', {}],
  ['a move and a purge', events(move('P2Y', 'cold'), purge('P7Y'))],
  ['both tiers and a purge', audit(move('P90D', 'warm'), move('P2Y', 'cold'), purge('P7Y'))],
  ['31 days after a month of 30', audit(move('P1M', 'warm'), move('P31D', 'cold'))],
  ['a duration of every part', { rules: [purge('P1Y2M3W4D')] }],
  ['one day', { rules: [purge('P1D')] }],
  ['100 years', { rules: [purge('P100Y')] }],
  ['a day of the month', { schedule: '0 3 1,15 * *' }],
  ['weekdays', { schedule: '*/10 0-5 * * 1-5' }],
  ['a window across midnight', { window: { from: '22:00', to: '04:00' } }],
  ['the largest numbers', { batchSize: 1000, parallelism: 16, maxDuePercent: 100, bytesPerSecond: 1e12 }],
]
for (const [name, spec] of ACCEPTED) {
  t.test(`accepted: ${name}`, async (t) => t.equal(await answer(() => create(spec)), 'accepted'))
}

const LONGER = /spec\.rules: Invalid value: .*each rule must have a longer "after"/
const REFUSED: [string, object, RegExp][] = [
  ['no target', { target: undefined }, /spec\.target: Required value/],
  ['a target that is none', { target: 'Everything' }, /spec\.target: Unsupported value/],
  ['no rule', { rules: [] }, /should have at least 1 items/],
  ['nine rules', { rules: Array.from({ length: 9 }, () => purge('P1D')) }, /must have at most 8 items/],
  ['a duration of no time', { rules: [purge('P')] }, /spec\.rules\[0\]\.after: Invalid value/],
  ['a duration of zero', { rules: [purge('P0D')] }, /after must be between one day and 100 years/],
  ['more than 100 years', { rules: [purge('P100Y1D')] }, /after must be between one day and 100 years/],
  ['hours', { rules: [purge('PT24H')] }, /spec\.rules\[0\]\.after: Invalid value/],
  ['a move to nowhere', events({ after: 'P2Y', action: 'moveToTier' }), /tier must be set with moveToTier/],
  ['a purge to a tier', events({ ...purge('P2Y'), tier: 'cold' }), /tier must be set with moveToTier/],
  ['rules out of order', events(move('P7Y', 'cold'), purge('P2Y')), LONGER],
  ['rules of the same age', audit(move('P1M', 'warm'), move('P30D', 'cold')), LONGER],
  ['a purge before a move', events(purge('P2Y'), move('P7Y', 'cold')), /purge must be the last rule/],
  ['two purges', events(purge('P2Y'), purge('P7Y')), /purge must be the last rule/],
  ['cold before warm', audit(move('P1Y', 'cold'), move('P2Y', 'warm')), /warm comes before cold/],
  ['the same tier twice', audit(move('P1Y', 'cold'), move('P2Y', 'cold')), /each tier may be moved to once/],
  ['warm events', events(move('P1Y', 'warm')), /EventArchive moves to no tier but cold/],
  ['cold trash', { rules: [move('P1Y', 'cold')] }, /MediaTrash can only be purged/],
  ['cold uploads', { target: 'Uploads', rules: [move('P1Y', 'cold')] }, /Uploads can only be purged/],
  ['cold pieces', { target: 'PieceCache', rules: [move('P1Y', 'cold')] }, /PieceCache can only be purged/],
  ['cold notifications', { target: 'Notifications', rules: [move('P1Y', 'cold')] }, /Notifications can only be purged/],
  ['a macro', { schedule: '@daily' }, /spec\.schedule: Invalid value/],
  ['six fields', { schedule: '0 0 3 * * *' }, /spec\.schedule: Invalid value/],
  ['names of days', { schedule: '0 0 * * MON' }, /spec\.schedule: Invalid value/],
  ['Friday the 13th', { schedule: '0 0 13 * 5' }, /the day of the month or the weekday must be \*/],
  ['a schedule of 101', { schedule: `${'1,'.repeat(46)}1 * * * *`.padStart(101, '1') }, /spec\.schedule: Too long/],
  ['a window without length', { window: { from: '03:00', to: '03:00' } }, /the window must have a length/],
  ['an hour that is none', { window: { from: '24:00', to: '03:00' } }, /spec\.window\.from: Invalid value/],
  ['half a window', { window: { from: '03:00' } }, /spec\.window\.to: Required value/],
  ['no pods', { parallelism: 0 }, /spec\.parallelism: Invalid value/],
  ['17 pods', { parallelism: 17 }, /spec\.parallelism: Invalid value/],
  ['batches of 1001', { batchSize: 1001 }, /spec\.batchSize: Invalid value/],
  ['a share of 0', { maxDuePercent: 0 }, /spec\.maxDuePercent: Invalid value/],
]
for (const [name, spec, message] of REFUSED) {
  t.test(`refused: ${name}`, async (t) => {
    const said = await answer(() => create(spec))
    t.match(said, /^Invalid: /)
    t.match(said, message)
  })
}

t.test('everything but the target can be changed', async (t) => {
  const { metadata } = await create(events(move('P2Y', 'cold')))
  const key = { namespace, name: metadata.name }
  const patch = (spec: object) => answer(() => kube.patch(RETENTION_POLICIES, key, { spec }))
  const change = { schedule: '0 4 * * *', rules: [purge('P7Y')], suspend: true, dryRun: true, parallelism: 2 }
  t.equal(await patch(change), 'accepted')
  t.match(await patch({ target: 'MediaTrash' }), /target cannot be changed/)
})

t.test('what is left out gets its default, and kubectl shows the columns', async (t) => {
  const object = await create({})
  t.match(object, {
    spec: { batchSize: 100, parallelism: 1, suspend: false, dryRun: false, maxDuePercent: 20 },
  })
  const table = await plane.kubectl('--namespace', namespace, 'get', 'rp', object.metadata.name)
  t.match(
    table.split('\n')[0],
    /^NAME +TARGET +SCHEDULE +LAST +ENDED +DRY-RUN +MOVED +PURGED +FAILURES +NEXT +READY +REASON +AGE/,
  )
})
