import t from 'tap'
import { CreateEvent, fieldsOf, UpdateEvent } from '../../../../api/features/events/event.ts'
import {
  ACTIVATE_MOVES,
  ARCHIVE_MOVES,
  columnsOf,
  type EventChanges,
  misplacedTime,
} from '../../../../api/features/events/plan.ts'

t.test('an event becomes active, then archived, and a repeat changes nothing', async (t) => {
  t.strictSame(ACTIVATE_MOVES, { draft: 'activate', active: 'nothing', archived: 'refuse' })
  t.strictSame(ARCHIVE_MOVES, { draft: 'refuse', active: 'archive', archived: 'nothing' })
})

const at = (hour: number) => new Date(Date.UTC(2027, 4, 8, hour))
const TIMES: [what: string, changes: EventChanges, misplaced: 'start_at' | 'end_at' | undefined][] = [
  ['neither', {}, undefined],
  ['an earlier start', { start_at: at(1) }, undefined],
  ['a start at the end', { start_at: at(20) }, undefined],
  ['a start behind the end', { start_at: at(21) }, 'start_at'],
  ['an end at the start', { end_at: at(10) }, undefined],
  ['an end before the start', { end_at: at(9) }, 'end_at'],
  ['no end', { end_at: null }, undefined],
  ['a late start and no end', { start_at: at(23), end_at: null }, undefined],
  ['both, later', { start_at: at(22), end_at: at(23) }, undefined],
  ['both, earlier than before', { start_at: at(1), end_at: at(2) }, undefined],
  ['both, the wrong way round', { start_at: at(23), end_at: at(22) }, 'end_at'],
]
for (const [what, changes, misplaced] of TIMES) {
  t.test(`of an event from 10 to 20 a request changes ${what}`, async (t) => {
    t.equal(misplacedTime(changes, { startAt: at(10), endAt: at(20) }), misplaced)
  })
}

t.test('of an event without an end, the start is free', async (t) => {
  t.equal(misplacedTime({ start_at: at(23) }, { startAt: at(10), endAt: null }), undefined)
  t.equal(misplacedTime({ end_at: at(9) }, { startAt: at(10), endAt: null }), 'end_at')
})

t.test('only what the request names becomes a column; null clears', async (t) => {
  const columns = (changes: EventChanges) => JSON.parse(JSON.stringify(columnsOf(changes)))
  t.strictSame(columns({}), {})
  t.strictSame(columns({ title: 'A' }), { title: 'A' })
  t.strictSame(columns({ start_at: at(10) }), { startAt: at(10).toISOString() })
  t.strictSame(columns({ description: null, end_at: null, location_name: null, location_geo: null }), {
    description: null,
    endAt: null,
    locationName: null,
    latitude: null,
    longitude: null,
  })
  t.strictSame(columns({ location_geo: [35.6, 139.7] }), { latitude: 35.6, longitude: 139.7 })
  t.strictSame(columns({ location_geo: [0, 0] }), { latitude: 0, longitude: 0 })
})

const given = { title: 'A', start_at: '2027-05-08T10:00:00Z' }
const GOOD: [what: string, fields: object][] = [
  ['the least', {}],
  ['nulls', { description: null, end_at: null, location_name: null, location_geo: null }],
  ['an end at the start', { end_at: '2027-05-08T12:00:00+02:00' }],
  ['the South Pole', { location_geo: [-90, -180] }],
  ['the North Pole', { location_geo: [90, 180] }],
  ['the longest texts', { title: '😀'.repeat(200), description: '😀'.repeat(5000), location_name: '😀'.repeat(300) }],
  ['the first year', { start_at: '1000-01-01T00:00:00Z' }],
  ['the last moment', { start_at: '9999-12-31T23:59:59.999Z' }],
  ['an unknown field', { colour: 'red' }],
]
for (const [what, fields] of GOOD) {
  t.test(`a new event may have ${what}`, async (t) => {
    t.ok(CreateEvent.safeParse({ ...given, ...fields }).success)
    if (Object.keys(fields).some((name) => name !== 'colour')) t.ok(UpdateEvent.safeParse(fields).success)
  })
}

const BAD: [what: string, field: string, fields: object][] = [
  ['an empty title', 'title', { title: ' ' }],
  ['a long title', 'title', { title: 'x'.repeat(201) }],
  ['no title', 'title', { title: null }],
  ['a long description', 'description', { description: 'x'.repeat(5001) }],
  ['a long place', 'location_name', { location_name: 'x'.repeat(301) }],
  ['no start', 'start_at', { start_at: null }],
  ['a start without an offset', 'start_at', { start_at: '2027-05-08T10:00:00' }],
  ['a start in the year 0', 'start_at', { start_at: '0000-12-31T23:59:59Z' }],
  ['a start that is the zero value of a client', 'start_at', { start_at: '0001-01-01T00:00:00Z' }],
  ['a start that its offset moves into the year 999', 'start_at', { start_at: '1000-01-01T00:00:00+01:00' }],
  ['a start that its offset moves into the year 10000', 'start_at', { start_at: '9999-12-31T23:59:59-01:00' }],
  ['an end before the start', 'end_at', { start_at: '2027-05-08T10:00:00Z', end_at: '2027-05-08T09:59:59.999Z' }],
  ['GeoJSON’s order, where it shows', 'location_geo.0', { location_geo: [139.7454, 35.6586] }],
  ['a latitude out of range', 'location_geo.0', { location_geo: [-90.001, 0] }],
  ['a longitude out of range', 'location_geo.1', { location_geo: [0, 180.001] }],
  ['one number', 'location_geo', { location_geo: [35] }],
  ['three numbers', 'location_geo', { location_geo: [35, 139, 333] }],
  ['numbers as text', 'location_geo.0', { location_geo: ['35', '139'] }],
  ['no number', 'location_geo.0', { location_geo: [Number.NaN, 0] }],
  ['an endless number', 'location_geo.1', { location_geo: [0, Number.POSITIVE_INFINITY] }],
  ['an object', 'location_geo', { location_geo: { latitude: 35, longitude: 139 } }],
]
for (const [what, field, fields] of BAD) {
  t.test(`an event may not have ${what}`, async (t) => {
    const issuesOf = (body: object, schema: typeof CreateEvent | typeof UpdateEvent) =>
      new Set(schema.safeParse(body).error?.issues.map(({ path }) => path.join('.')))
    t.ok(issuesOf({ ...given, ...fields }, CreateEvent).has(field))
    // Whether the times fit each other is decided on the row.
    if (what !== 'an end before the start') t.ok(issuesOf(fields, UpdateEvent).has(field))
  })
}

t.test('a change names at least one field that it knows', async (t) => {
  for (const body of [{}, { colour: 'red' }, { status: 'active', owner_id: 'x' }]) {
    t.equal(UpdateEvent.safeParse(body).success, false, JSON.stringify(body))
  }
  t.strictSame(fieldsOf(UpdateEvent.parse({ title: 'A', end_at: null, colour: 'red' })), ['title', 'end_at'])
})
