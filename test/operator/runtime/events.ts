import t from 'tap'
import { ClusterError, EVENTS_V1, type KubeObject } from '../../../lib/runtime/kube/cluster.ts'
import { eventRecorder } from '../../../operator/runtime/events.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { storeCluster } from '../../support/store-cluster.ts'

const about: KubeObject = {
  apiVersion: 'media.keepsake.dev/v1alpha1',
  kind: 'TranscodeJob',
  metadata: { name: 'med-1', namespace: 'media', uid: 'u-1' },
}
const event = { type: 'Warning' as const, reason: 'OOMKilled', action: 'Observe', note: 'too big' }
interface Stored extends KubeObject {
  note: string
  reason: string
  series?: { count: number }
}

function open() {
  const api = storeCluster()
  const time = { now: new Date('2026-01-01T00:00:00Z') }
  const instance = `pod_${'x'.repeat(200)}`
  const recorder = eventRecorder({
    cluster: api.cluster,
    log: quietLog(),
    controller: 'keepsake.dev/operator',
    instance,
    now: () => time.now,
  })
  return { ...api, recorder, time, stored: () => api.store.all<Stored>(EVENTS_V1) }
}

t.test('an event says what happened to which object', async (t) => {
  const { recorder, stored } = open()
  recorder.record(about, { ...event, note: 'y'.repeat(3000) })
  await recorder.flush()
  t.match(stored(), [
    {
      metadata: { name: /^med-1-/, namespace: 'media' },
      eventTime: '2026-01-01T00:00:00.000000Z',
      type: 'Warning',
      reason: 'OOMKilled',
      regarding: { kind: 'TranscodeJob', name: 'med-1', uid: 'u-1' },
    },
  ])
  t.equal(stored()[0]?.note.length, 1024)
})

t.test('an event says when it happened, also when it had to wait', async (t) => {
  const { recorder, stored, time } = open()
  recorder.record(about, event)
  recorder.record(about, { ...event, reason: 'Later' })
  time.now = new Date('2026-01-01T00:01:00Z')
  await recorder.flush()
  t.match(stored(), [{ eventTime: '2026-01-01T00:00:00.000000Z' }, { eventTime: '2026-01-01T00:00:00.000000Z' }])
})

t.test('a crowd of normal events leaves room for warnings', async (t) => {
  const { recorder, stored } = open()
  const of = (i: number) => ({ ...about, metadata: { ...about.metadata, uid: `u-${i}` } })
  for (let i = 0; i < 700; i++) recorder.record(of(i), { ...event, type: 'Normal', reason: 'JobCreated' })
  recorder.record(of(1000), event)
  await recorder.flush()
  t.equal(stored().filter(({ reason }) => reason === 'JobCreated').length, 500)
  t.equal(stored().filter(({ reason }) => reason === event.reason).length, 1)
})

t.test('the same event again becomes a series, after a while a new one', async (t) => {
  const { recorder, stored, time } = open()
  for (let i = 0; i < 3; i++) recorder.record(about, event)
  await recorder.flush()
  t.match(stored(), [{ series: { count: 3 } }])
  time.now = new Date('2026-01-01T00:11:00Z')
  recorder.record(about, event)
  await recorder.flush()
  t.equal(stored().length, 2)
})

t.test('many that differ only in their text become one', async (t) => {
  const { recorder, stored } = open()
  for (let i = 0; i < 20; i++) recorder.record(about, { ...event, note: `attempt ${i}` })
  await recorder.flush()
  t.equal(stored().length, 11)
  t.match(stored().at(-1), { series: { count: 10 } })
})

t.test('each object has a budget, others are not affected by it', async (t) => {
  const { recorder, stored } = open()
  for (let i = 0; i < 60; i++) recorder.record(about, { ...event, reason: `R${i}` })
  recorder.record({ ...about, metadata: { ...about.metadata, uid: 'u-2' } }, event)
  await recorder.flush()
  t.equal(stored().length, 26)
})

t.test('an event that cannot be recorded hurts nobody, and the next one is', async (t) => {
  const api = open()
  const { create } = api.cluster
  api.cluster.create = async () => Promise.reject(new ClusterError('Forbidden', 'no'))
  api.recorder.record(about, event)
  await api.recorder.flush()
  api.cluster.create = create
  api.recorder.record(about, event)
  await api.recorder.flush()
  t.equal(api.stored().length, 1)
})
