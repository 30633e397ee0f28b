import { text } from 'node:stream/consumers'
import t from 'tap'
import { succeededOf } from '../../../crds/run.ts'
import { parseMediaPlaylist } from '../../../jobs/hls/media-playlist.ts'
import { EXIT } from '../../../lib/contract/job-result.ts'
import type { ObjectMeta } from '../../../lib/runtime/kube/cluster.ts'
import { openS3Store } from '../../../lib/runtime/object-store/s3.ts'
import { HELPER, ROLE } from '../../../operator/jobs/labels.ts'
import { eventually } from '../../support/eventually.ts'
import { failPrograms, storeFaults } from '../node-support/faults.ts'
import { openGround } from '../node-support/ground.ts'
import { holdEncoder } from '../node-support/pod-processes.ts'
import { verdict } from '../node-support/verdict.ts'
import { openWorld, type SourceName } from '../node-support/world.ts'

/** What the operator makes of what really happens to pods. Most of it is waiting, so the cases run side by side. */
t.jobs = 5
const INDEX = 'batch.kubernetes.io/job-completion-index'
t.setTimeout(1_800_000)
const ground = await openGround(t)

t.test('every exit code of the contract reaches status', { buffered: true }, async (t) => {
  const w = await openWorld(t, ground, 'exits', { store: storeFaults(ground.address) })
  await failPrograms(t, w)
  const cases: [name: string, source: SourceName, exit: number, reason: string][] = [
    ['fine', 'short', EXIT.ok, 'Succeeded'],
    ['bad-spec', 'short', EXIT.badSpec, 'BadSpec'],
    ['bad-config', 'short', EXIT.transient, 'BadConfiguration'],
    ['missing', 'missing', EXIT.inputMissing, 'InputMissing'],
    ['text', 'text', EXIT.inputBad, 'CorruptInput'],
    ['no-store', 'short', EXIT.transient, 'StoreUnavailable'],
    ['no-bucket', 'short', EXIT.transient, 'StoreUnavailable'],
    // Nothing here can make the program itself end so: only its exit code is real.
    ['exit-13', 'short', EXIT.encoderMissing, 'EncoderMissing'],
    ['exit-21', 'short', EXIT.noSpace, 'NoSpace'],
    ['exit-22', 'short', EXIT.gpuBusy, 'GpuBusy'],
    ['exit-30', 'short', EXIT.verificationFailed, 'VerificationFailed'],
    ['exit-77', 'short', 77, 'Failed'],
  ]
  for (const [name, source] of cases) await w.submit(name, source, { maxAttempts: 1 })
  for (const [name, , exit, reason] of cases) {
    const done = await w.untilFinished(name)
    const [pod] = await w.podsOf(name)
    const state = pod?.status?.containerStatuses?.[0]?.state
    t.equal(state?.terminated?.exitCode, exit, `${name} ended with ${exit}`)
    t.match(verdict(t, done), { is: exit === EXIT.ok ? 'True' : 'False', reason, attempts: 1 }, name)
  }
  const permanent = await w.jobsOf('text')
  t.match(permanent[0]?.status?.conditions?.at(-1), { type: 'Failed', reason: 'PodFailurePolicy' })
})

t.test('a permanent exit code ends the Job at once, however many attempts are left', { buffered: true }, async (t) => {
  const w = await openWorld(t, ground, 'permanent')
  await w.submit('text', 'text', { maxAttempts: 5 })
  const done = await w.untilFinished('text')
  t.match(verdict(t, done), { is: 'False', reason: 'CorruptInput', attempts: 1 })
  t.equal((await w.podsOf('text')).length, 1)
})

t.test('a program that runs out of memory gets more, until it is enough', { buffered: true }, async (t) => {
  const w = await openWorld(t, ground, 'oom', { operator: { JOB_MEMORY: '160Mi', JOB_MEMORY_MAX: '1280Mi' } })
  await w.submit('hungry', 'long', { maxAttempts: 4 })
  const done = await w.untilFinished('hungry')
  t.match(verdict(t, done), { is: 'True', reason: 'Succeeded' })
  t.ok((done.status?.attempts ?? 0) >= 2, `${done.status?.attempts} attempts, the last with ${done.status?.memory}`)
  await w.told('hungry', 'OOMKilled', (e) => e.reason === 'OOMKilled' && /the next one gets 320Mi/.test(e.note))
})

t.test('a program that needs more memory than it may ever have fails and says so', { buffered: true }, async (t) => {
  const w = await openWorld(t, ground, 'oom-limit', { operator: { JOB_MEMORY: '96Mi', JOB_MEMORY_MAX: '128Mi' } })
  await w.submit('hungry', 'long', { maxAttempts: 4 })
  const done = await w.untilFinished('hungry')
  t.match(verdict(t, done), { is: 'False', reason: 'OOMKilled', message: /128Mi of memory, which is the maximum/ })
  t.equal(done.status?.attempts, 2, 'the third would have ended as the second')
})

t.test('a pod that is evicted for its scratch space says so', { buffered: true }, async (t) => {
  const w = await openWorld(t, ground, 'scratch', { operator: { JOB_SCRATCH: '8Mi' } })
  await w.submit('large', 'long', { maxAttempts: 1 })
  const pod = await w.runningPod('large')
  // The kubelet looks about once a minute; a fast machine would be done before.
  await holdEncoder(pod.metadata.uid ?? '')
  const done = await w.untilFinished('large')
  t.match(verdict(t, done), { is: 'False', reason: 'Evicted', message: /exceeds the (total )?limit/ })
})

t.test('an attempt that passes its deadline ends, and status says why', { buffered: true }, async (t) => {
  const w = await openWorld(t, ground, 'deadline')
  await w.submit('slow', 'long', { maxAttempts: 1, attemptDeadlineSeconds: 60 })
  const pod = await w.runningPod('slow')
  await holdEncoder(pod.metadata.uid ?? '')
  const done = await w.untilFinished('slow')
  t.match(verdict(t, done), { is: 'False', reason: 'DeadlineExceeded', message: /attemptDeadlineSeconds/ })
})

t.test('an image that is not there is seen, and a mended operator begins again', { buffered: true }, async (t) => {
  const w = await openWorld(t, ground, 'image', { operator: { JOB_IMAGE: 'localhost/no-such-image:1' } })
  await w.submit('stuck', 'short', { maxAttempts: 1, attemptDeadlineSeconds: 60 })
  const stuck = await w.until('stuck', 'a reason', (r) => succeededOf(r.status)?.reason === 'ImagePullBackOff')
  t.match(stuck.status, { phase: 'Pending' })
  t.match(succeededOf(stuck.status), { status: 'Unknown', message: /no-such-image/ })
  await w.told('stuck', 'ImagePullBackOff', (e) => e.type === 'Warning' && e.reason === 'ImagePullBackOff')
  // In the end the kubelet may write that it could not locate a container, of which there never was one.
  const hasFailed = async () => (await w.podsOf('stuck')).find((p) => p.status?.phase === 'Failed')
  await w.restartOperator({ JOB_IMAGE: 'localhost/keepsake:dev' }, async () => {
    const { status } = await eventually('its deadline', hasFailed, 240_000)
    t.comment(JSON.stringify([status?.initContainerStatuses, status?.containerStatuses].map((c) => c?.[0]?.state)))
  })
  const done = await w.untilFinished('stuck')
  t.match(verdict(t, done), { is: 'True', attempts: 1 }, 'what never ran was no attempt')
  t.equal(done.status?.restarts, 1)
})

t.test(
  'a pod stuck without an image, or without room, goes on as soon as that is mended',
  { buffered: true },
  async (t) => {
    const wrong = { JOB_IMAGE: 'localhost/no-such-image:2', JOB_CPU: '10m' }
    const w = await openWorld(t, ground, 'mended', { operator: wrong })
    await w.submit('stuck', 'short', { maxAttempts: 1 })
    await w.until('stuck', 'a reason', (r) => succeededOf(r.status)?.reason === 'ImagePullBackOff')
    await w.restartOperator({ JOB_IMAGE: 'localhost/keepsake:dev', JOB_CPU: '1000' })
    await w.until('stuck', 'another reason', (r) => succeededOf(r.status)?.reason === 'Unschedulable')
    await w.restartOperator({ JOB_IMAGE: 'localhost/keepsake:dev', JOB_CPU: '10m' })
    const done = await w.untilFinished('stuck')
    t.match(verdict(t, done), { is: 'True', attempts: 1 }, 'long before its deadline, and nothing was an attempt')
    t.equal(done.status?.restarts, undefined)
    await w.told('stuck', 'Outdated', (e) => e.reason === 'Outdated' && e.note.startsWith('ImagePullBackOff: '))
  },
)

t.test('a pod that fits nowhere is seen, and goes with its resource', { buffered: true }, async (t) => {
  const w = await openWorld(t, ground, 'nowhere', { operator: { JOB_CPU: '1000' } })
  await w.submit('huge', 'short')
  const stuck = await w.until('huge', 'a reason', (r) => succeededOf(r.status)?.reason === 'Unschedulable')
  t.match(succeededOf(stuck.status), { status: 'Unknown', message: /Insufficient cpu/ })
  t.equal(stuck.status?.phase, 'Pending')
  await w.told('huge', 'Unschedulable', (e) => e.type === 'Warning' && e.reason === 'Unschedulable')
  await w.kubectl('delete', 'tj', 'huge')
  await eventually('no pod', async () => (await w.podsOf('huge')).length === 0, 240_000, 200)
  await eventually('no Job', async () => (await w.jobsOf('huge')).length === 0, 240_000, 200)
})

t.test('a pod that somebody deletes is followed by another one', { buffered: true }, async (t) => {
  const w = await openWorld(t, ground, 'deleted')
  await w.submit('unlucky', 'long', { maxAttempts: 2 })
  const pod = await w.runningPod('unlucky')
  await holdEncoder(pod.metadata.uid ?? '')
  await w.kubectl('delete', 'pod', pod.metadata.name, '--wait=false')
  const done = await w.untilFinished('unlucky')
  await w.told('unlucky', 'Retrying', (e) => e.reason === 'Retrying' && /^Attempt 1 of 2 failed: /.test(e.note))
  t.match(verdict(t, done), { is: 'True', reason: 'Succeeded', attempts: 2 }, 'as many as the Job counts')
  const [job] = await w.jobsOf('unlucky')
  t.match(job?.status, { failed: 1, succeeded: 1 })
  t.notOk(
    (await w.podsOf('unlucky')).some((p) => p.metadata.uid === pod.metadata.uid),
    'it was not that pod',
  )
})

t.test(
  'two pods share a video; of one that helps and is deleted, only its chunk is made again',
  { buffered: true },
  async (t) => {
    const w = await openWorld(t, ground, 'shared')
    const renditions: ('360p' | '720p')[] = ['360p', '720p']
    await w.submit('film', 'shared', { parallelism: 2, maxAttempts: 1, renditions })
    const isHelper = ({ metadata }: { metadata: ObjectMeta }) => metadata.labels?.[ROLE] === HELPER
    const lead = await eventually('the lead', async () => (await w.podsOf('film')).find((p) => !isHelper(p)), 240_000)
    const helper = (not?: string) => async () =>
      (await w.podsOf('film')).find((p) => isHelper(p) && p.metadata.uid !== not && p.status?.phase === 'Running')
    const first = await eventually('a helper', helper(), 240_000)
    // The one that leads waits, so that there is something to do for its replacement.
    const goOn = await holdEncoder(lead.metadata.uid ?? '')
    await holdEncoder(first.metadata.uid ?? '')
    await w.kubectl('delete', 'pod', first.metadata.name, '--wait=false')
    const second = await eventually('its replacement', helper(first.metadata.uid), 240_000)
    t.strictSame(second.metadata.labels?.[INDEX], first.metadata.labels?.[INDEX], 'of the same index')
    const store = openS3Store(ground.s3)
    t.teardown(() => store.close())
    const prefix = `out/${w.name}/film/`
    const keysOf = async () => {
      const keys: string[] = []
      for await (const { key } of store.list(prefix)) keys.push(key.slice(prefix.length))
      return keys
    }
    // Only the replacement can have made it.
    const made = await eventually(
      'a part',
      async () => {
        const keys = await keysOf()
        return keys.some((key) => /^chunks\/.*part\.json$/.test(key)) ? keys : undefined
      },
      240_000,
    )
    goOn()
    const done = await w.untilFinished('film')
    t.match(verdict(t, done), { is: 'True', reason: 'Succeeded', attempts: 1 }, 'what helps is no attempt')
    t.match(done.status?.planReason, /720p in 2 chunks, which several pods share/)
    await eventually('no helpers', async () => !(await w.podsOf('film')).some(isHelper), 240_000)
    t.notOk((await w.jobsOf('film')).some(isHelper))

    const keys = await keysOf()
    const listed = parseMediaPlaylist(await text((await store.get(`${prefix}720p.m3u8`)).body))?.segments ?? []
    t.equal(listed.length, 11)
    t.strictSame(keys.filter((key) => /^720p.*ts$/.test(key)).sort(), listed.map((s) => s.uri).sort())
    t.notOk(keys.some((key) => key.startsWith('chunks/')))
    t.ok(listed.filter((s) => made.includes(s.uri)).length >= 5, 'what the replacement has made is shown')
  },
)
