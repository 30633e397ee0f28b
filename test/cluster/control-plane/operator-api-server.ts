import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { ClusterError, JOBS } from '../../../lib/runtime/kube/cluster.ts'
import type { Job } from '../../../operator/jobs/batch.ts'
import { eventually } from '../../support/eventually.ts'
import { type OperatorWorld, operatorPlane } from '../../support/operator-plane.ts'
import { controlPlaneWithoutNodes } from '../support.ts'

t.setTimeout(900_000)

const cluster = await controlPlaneWithoutNodes(t)
const { faults } = cluster
const ours = () => ({ skip: faults ? false : 'this cluster is not ours to break', timeout: 600_000 })
const p = await operatorPlane(t, cluster)
// At once, since controllers take up to half a minute to come back after an API server that was away.
const worlds = await Promise.all([0, 1, 2, 3].map(() => p.world(t)))
const world = () => worlds.shift() as OperatorWorld

/** With controllers that have just started: those that have seen the outage look again up to a minute later. */
async function back(): Promise<void> {
  await faults?.startApiServer()
  await faults?.stopControllers()
  await faults?.startControllers()
}

/** Every Job there ever was, also one that was made twice and removed. */
function jobsMade({ namespace }: OperatorWorld): Set<string> {
  const made = new Set<string>()
  p.kube.reflect<Job>(
    JOBS,
    { onSet: ({ metadata }) => void made.add(metadata.uid ?? ''), onDelete() {} },
    { namespace },
  )
  return made
}
/** As a client does it that wants its resource to exist. */
async function insist(call: () => Promise<unknown>): Promise<void> {
  await eventually(
    'an answer',
    () =>
      call().then(
        () => true,
        (error: unknown) => {
          if (error instanceof ClusterError && error.reason === 'AlreadyExists') return true
          if (error instanceof ClusterError && error.reason === 'Invalid') throw error
          return false // not ready yet: a server that comes up refuses in several ways
        },
      ),
    240_000,
  )
}
const names = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `med-${from + i}`)
const seenTo = (w: OperatorWorld, which: string[]) =>
  Promise.all(which.map((n) => w.says(n, /^(Queued|Unschedulable):/)))

t.test('a watch that is too old: everything is listed again and nothing was missed', ours(), async (t) => {
  const w = world()
  const made = jobsMade(w)
  const operator = w.operator({ LEADER_ELECTION: 'false' })
  for (const name of names(0, 6)) await w.submit(name)
  await seenTo(w, names(0, 6))

  // What happens while it looks away, and is forgotten before it looks again:
  operator.child.kill('SIGSTOP')
  for (const name of names(6, 12)) await w.submit(name) // new
  for (const name of names(0, 3)) await w.kubectl('delete', 'tj', name) // gone
  await w.edit('med-3', { suspend: true }) // changed
  await w.run('med-4')
  const before = (await w.resource('med-5'))?.metadata.uid
  await w.kubectl('delete', 'tj', 'med-5') // gone, and another one in its place
  await w.submit('med-5')
  await faults?.compactEtcd()
  operator.child.kill('SIGCONT')

  await operator.logged('"reason":"Gone"')
  await seenTo(w, [...names(6, 12), 'med-5'])
  t.not((await w.resource('med-5'))?.metadata.uid, before)
  await w.says('med-3', 'Suspended')
  await w.says('med-4', 'Running')
  // The garbage collector has seen the outage, and looks again up to a minute later.
  await eventually('nine Jobs', async () => (await w.jobs()).length === 9, 240_000, 50)
  await eventually('all Jobs seen', () => made.size >= 13)
  t.equal(made.size, 13, 'six, six more, and one for the one that was re-created')
  await w.succeed('med-4')
  await w.says('med-4', 'Succeeded')
})

t.test('an API server that dies in the middle of fifty new resources', ours(), async (t) => {
  const w = world()
  const made = jobsMade(w)
  const operator = w.operator()
  // Ten seconds without a renewal, as they may pass where an API server takes long to start, must end it; another one
  // follows then, as a Deployment does it.
  void operator.ended.then((how) => how === 1 && w.operator())
  await operator.logged('workers started')
  const all = names(0, 50)
  const submitting = Promise.all(
    [0, 1, 2, 3, 4].map(async (lane) => {
      for (const [i, name] of all.entries()) if (i % 5 === lane) await insist(() => w.submit(name))
    }),
  )
  await eventually('some Jobs', () => made.size >= 10)
  const away = performance.now()
  await faults?.killApiServer()
  await sleep(2000)
  await back()
  const awayMs = performance.now() - away
  await submitting
  await seenTo(w, all)
  await eventually('all Jobs seen', () => made.size >= 50)
  t.equal(made.size, 50, 'one each, and none twice')
  t.equal((await w.jobs()).length, 50)
  t.comment(`the API server was away for ${Math.round(awayMs)} ms`)
  if (operator.child.exitCode !== null) {
    // It renews every 4 s, so that of its ten seconds at least six were left when the API server went.
    t.ok(awayMs > 5_000, `ended though the API server was away for ${Math.round(awayMs)} ms only`)
    t.match(operator.output(), /The lease is lost/)
  }

  const done = all.slice(0, 10)
  await Promise.all(done.map((name) => w.succeed(name)))
  await Promise.all(done.map((name) => w.says(name, 'Succeeded')))
})

t.test('what ends while the API server is away is seen to when it is back', ours(), async () => {
  const w = world()
  const operator = w.operator({ LEADER_ELECTION: 'false' })
  await operator.logged('workers started')
  await w.submit('med-1')
  await w.submit('med-2')
  await w.run('med-1')
  await w.says('med-1', 'Running')
  operator.child.kill('SIGSTOP')
  await w.succeed('med-1')
  await w.end('med-2', { exitCode: 12 })
  await faults?.killApiServer()
  operator.child.kill('SIGCONT')
  await sleep(1500)
  await back()
  await w.says('med-1', 'Succeeded')
  await w.says('med-2', 'CorruptInput')
})

t.test('an operator that starts before the API server does waits for it', ours(), async (t) => {
  const w = world()
  await w.submit('med-1')
  await faults?.killApiServer()
  const operator = w.operator()
  await operator.logged('operator started')
  await sleep(2000)
  await back()
  await seenTo(w, ['med-1'])
  t.equal((await w.jobs()).length, 1)
})
