import t from 'tap'
import {
  CloudEvent,
  EVENTS,
  type EventType,
  type OutboxMessage,
  STREAM_SUBJECTS,
  subjectOf,
  toCloudEvent,
} from '../../../lib/contract/events.ts'
import { formatId, newUuid } from '../../../lib/contract/ids.ts'

const payload = {
  media_id: 'med_01h455vb4pex5vsknk084sn02q',
  org_id: 'org_01h455vb4pex5vsknk084sn02q',
  uploader_id: 'usr_01h455vb4pex5vsknk084sn02q',
  filename: 'grillabend.mp4',
  mime_type: 'video/mp4',
  file_size: 12,
}
const message = (over: Partial<OutboxMessage> = {}): OutboxMessage => ({
  id: newUuid(),
  orgId: newUuid(),
  area: 'media',
  aggregateId: newUuid(),
  aggregateVersion: 3,
  type: 'MediaUploaded',
  payload,
  createdAt: new Date('2026-01-02T03:04:05.678Z'),
  traceparent: null,
  ...over,
})

t.test('an outbox row becomes a whole CloudEvent', async (t) => {
  const m = message()
  t.strictSame(toCloudEvent(m), {
    specversion: '1.0',
    id: formatId('message', m.id),
    source: '/keepsake/api',
    type: 'MediaUploaded',
    subject: `media/${m.aggregateId}`,
    time: '2026-01-02T03:04:05.678Z',
    datacontenttype: 'application/json',
    dataschema: 'https://keepsake.dev/schemas/memory/v1/MediaUploaded.json',
    org_id: formatId('organization', m.orgId),
    aggregate_version: 3,
    data: payload,
  })
})

t.test('the program gives UUIDs; consumers get ids, however often the payload is parsed', async (t) => {
  const uuid = '01890a5d-ac96-774b-bcce-b302099a8057'
  const given = { ...payload, media_id: uuid, org_id: uuid, uploader_id: uuid }
  const stored = EVENTS.MediaUploaded.payload.parse(given)
  t.strictSame(stored, payload)
  t.strictSame(toCloudEvent(message({ payload: stored })).data, payload)
  t.throws(
    () => EVENTS.MediaUploaded.payload.parse({ ...given, uploader_id: payload.media_id }),
    'the id of a media item',
  )
})

t.test('is the same after the way over the wire, with the trace', async (t) => {
  const event = toCloudEvent(message({ traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' }))
  t.strictSame(CloudEvent.parse(JSON.parse(JSON.stringify(event))), event)
  t.match(event, { traceparent: /^00-/ })
})

t.test('the same row always has the same id, so that the bus can drop a repeat', async (t) => {
  const m = message()
  t.equal(toCloudEvent(m).id, toCloudEvent(m).id)
})

t.test('a payload that is not what the specification prints is a bug here, not at the consumer', async (t) => {
  t.throws(() => toCloudEvent(message({ payload: { ...payload, file_size: -1 } })))
  t.throws(() => toCloudEvent(message({ payload: {} })))
  const data = toCloudEvent(message({ payload: { ...payload, secret: 'x' } })).data
  t.notOk(Object.hasOwn(data as object, 'secret'), 'what is not in the specification does not leave')
})

for (const type of Object.keys(EVENTS) as EventType[]) {
  t.test(`the stream takes ${type}`, async (t) => {
    const subject = subjectOf({ area: 'media', org: newUuid(), aggregate: newUuid(), type })
    t.match(subject, /^memory\.v1\.media\.[0-9a-f-]{36}\.[0-9a-f-]{36}\.[A-Za-z_]+$/)
    t.ok(STREAM_SUBJECTS.some((s) => subject.startsWith(s.replace('>', ''))))
  })
}

const broken: [string, object][] = [
  ['no id', { id: undefined }],
  ['an id of something else', { id: 'med_x' }],
  ['another version of the format', { specversion: '0.3' }],
  ['a time that is none', { time: 'yesterday' }],
  ['a negative version', { aggregate_version: -1 }],
]
for (const [name, over] of broken) {
  t.test(`refuses an event with ${name}`, async (t) => {
    t.notOk(CloudEvent.safeParse({ ...toCloudEvent(message()), ...over }).success)
  })
}
