import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parseRetentionPolicy, RETENTION_POLICIES, RUN_REQUESTED } from '../../crds/retention-policy.ts'
import { RETENTION_TARGETS } from '../../crds/retention-rules.ts'
import { coldOriginalKey, originalKey } from '../../lib/contract/object-keys.ts'
import { loadConfig } from '../../lib/runtime/config.ts'
import { openLocalCluster } from '../../local/cluster/local-cluster.ts'
import { NAMESPACE, RETENTION_SECRET, storeEnvironment } from '../../local/environment.ts'
import { answerRuns, defaultPolicies, retentionTemplate } from '../../local/retention.ts'
import { OperatorConfig } from '../../operator/config.ts'
import { startOperator } from '../../operator/operator.ts'
import type { RawPolicy } from '../../operator/retention-policy/resources.ts'
import { parseSchedule } from '../../operator/retention-policy/schedule.ts'
import { archiveWorld } from '../support/archived-events.ts'
import { startConversionTest } from '../support/conversion-world.ts'
import { eventually } from '../support/eventually.ts'
import { operatorEnv } from '../support/operator-world.ts'
import { quickStart } from '../support/quick-start.ts'
import { quietLog } from '../support/quiet-log.ts'

/** The policies of one machine, whose runs are processes of the real program. */
const { database, place: storage, world } = await startConversionTest(t)
const made = archiveWorld({ admin: database.admin, store: storage.store, ...world })
// As the worker writes what is in force; there is none here.
await made.setPolicy('P7Y')
const secrets = { [RETENTION_SECRET]: { ...storeEnvironment(storage.storeFolder), DATABASE_URL: database.url } }
const isThere = (folder: string, key: string) => existsSync(join(folder, 'objects', `${key}~object`))
const cold = join(storage.storeFolder, 'cold')

/** As after a start of the platform: nothing is known of earlier ones but what is in Postgres. */
async function start(t: Test, isConfirmed = false) {
  const cluster = openLocalCluster({ secrets, maxPods: 2, closeGraceSeconds: 0, extraEnv: quickStart() })
  for (const policy of await defaultPolicies()) await cluster.create(RETENTION_POLICIES, policy)
  const told: string[] = []
  const answering = answerRuns(cluster, { isConfirmed, tell: (text) => void told.push(text), log: quietLog() })
  const config = loadConfig(OperatorConfig, operatorEnv({ LEADER_ELECTION: 'false', WATCH_NAMESPACE: NAMESPACE }))
  const operator = await startOperator({ config, cluster, log: quietLog(), retentionTemplate })
  t.teardown(async () => {
    await answering.stop()
    await operator.close()
    await cluster.close()
  })
  const key = { namespace: NAMESPACE, name: 'event-archive' }
  const annotations = { [RUN_REQUESTED]: new Date().toISOString() }
  await cluster.patch(RETENTION_POLICIES, key, { metadata: { annotations } })
  const status = async () => (await cluster.get<RawPolicy>(RETENTION_POLICIES, key))?.status
  const ended = (how: string) =>
    eventually(`a run that ended as ${how}`, async () => {
      const { lastRun } = (await status()) ?? {}
      return lastRun?.ended === how ? lastRun : undefined
    })
  return { told, ended, status }
}

t.test('there is a policy for each target, which runs each hour', async (t) => {
  const policies = await defaultPolicies()
  t.same(policies.map((policy) => (policy as RawPolicy).spec?.target).sort(), [...RETENTION_TARGETS].sort())
  for (const policy of policies) {
    const parsed = parseRetentionPolicy({ ...policy, metadata: { ...policy.metadata, uid: 'u' } })
    if (!('resource' in parsed)) throw new Error(parsed.problem)
    const { schedule } = parsed.resource.spec
    t.match(schedule, /^\d+ \* \* \* \*$/)
    t.ok('schedule' in parseSchedule(schedule))
  }
})

t.test('a run moves the original of an old event to the second folder, and purges an older event', async (t) => {
  const [old, older] = [await made.anEvent({ archived: 3 }), await made.anEvent({ archived: 8 })]
  const media = await made.aMedia()
  await made.place(await made.anAlbum(old), media)
  const { ended, told } = await start(t)
  t.match(await ended('Finished'), { moved: 1, purged: 1, failures: 0, due: 2 })
  t.notOk(await made.exists('events', older))
  t.ok(await made.exists('events', old))
  t.notOk(isThere(storage.storeFolder, originalKey(world.org, media)))
  t.ok(isThere(cold, coldOriginalKey(world.org, media)))
  t.strictSame(told, [])
})

t.test('a machine that was off for long asks at the terminal, and goes on once that is confirmed', async (t) => {
  await made.sql(`update retention_runs set clock_at = clock_at - interval '40 days'`)
  const event = await made.anEvent({ archived: 8 })
  const { ended, told } = await start(t)
  t.match(await ended('ConfirmationRequired'), { due: 1, purged: 0 })
  await eventually('words about it', () => told.length > 0)
  t.match(told, [
    /^Retention of event-archive waits \(--confirm-retention\): 1 are due, and the last run was 40 days ago/,
  ])
  t.ok(await made.exists('events', event))

  const confirmed = await start(t, true)
  t.match(await confirmed.ended('Finished'), { due: 1, purged: 1 })
  t.notOk(await made.exists('events', event))
})
