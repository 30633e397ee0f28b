import t from 'tap'
import { formatId, newUuid } from '../../lib/contract/ids.ts'
import { PROBLEMS } from '../../lib/contract/problem.ts'

/** What the page says about events and invitations: no browser is needed for these. */

const load = (name: string) => import(new URL(`../../web/${name}.js`, import.meta.url).href)
const words = await load('events/words')
const { viewOf, withoutKey, linkToEvent } = await load('shell/views')
const { uuidOf } = await load('lib/ids')
const { fieldWords, inAWhile, inWords } = await load('lib/refusals')
const invitation = await load('invitations/words')

const WHERE = { locale: 'en-GB', timeZone: 'Europe/Berlin' }
const START = '2027-05-08T14:00:00.000Z'

t.test('when an event is, by the clock of the viewer', async (t) => {
  const rows: [string, string | null, RegExp][] = [
    [START, null, /^Sat,? 8 May 2027(,| at) 16:00$/],
    [START, START, /^Sat,? 8 May 2027(,| at) 16:00$/],
    [START, '2027-05-08T20:30:00.000Z', /^Sat,? 8 May 2027(,| at) 16:00 ?– ?22:30$/],
    [START, '2027-05-09T09:00:00.000Z', /^Sat,? 8 May 2027(,| at) 16:00 – Sun,? 9 May 2027(,| at) 11:00$/],
  ]
  for (const [start_at, end_at, text] of rows) t.match(words.when({ start_at, end_at }, WHERE), text)
  t.strictSame(words.sheetOf({ start_at: '2027-05-08T23:30:00Z' }, WHERE), { month: 'May', day: '9' })
})

const NOW = new Date(2027, 4, 8, 12).getTime()
const hours = (n: number) => new Date(NOW + n * 3_600_000).toISOString()
const at = (from: number, to?: number) => ({ start_at: hours(from), end_at: to === undefined ? null : hours(to) })

t.test('an event is over at its end; without one, when its day is', async (t) => {
  const rows: [ReturnType<typeof at>, boolean][] = [
    [at(1), false],
    [at(-11), false],
    [at(-13), true],
    [at(-30, 1), false],
    [at(-3, -1), true],
  ]
  for (const [event, over] of rows) t.equal(words.isOver(event, NOW), over, JSON.stringify(event))
})

t.test('the list has what comes up first at the top, and no empty sections', async (t) => {
  const named = (title: string, from: number) => ({ title, ...at(from) })
  const active = [named('old', -300), named('later', 90), named('soon', 9), named('recent', -40)]
  const titles = (lists: object) =>
    words
      .sectionsOf({ draft: [], active: [], archived: [], ...lists }, NOW)
      .map((s: { title: string; isLast: boolean; events: { title: string }[] }) => [
        s.title,
        s.isLast,
        s.events.map((e) => e.title),
      ])
  t.strictSame(titles({}), [])
  t.strictSame(titles({ active, archived: [named('gone', -1)] }), [
    ['Coming up', false, ['soon', 'later']],
    ['Past', true, ['recent', 'old']],
    ['Archived', true, ['gone']],
  ])
  t.strictSame(titles({ draft: [named('idea', 1)], active: [named('soon', 9)] }), [
    ['Drafts', true, ['idea']],
    ['Coming up', true, ['soon']],
  ])
})

t.test("the viewer's own part", async (t) => {
  const rows: [string, string | null, string, string][] = [
    ['active', 'accepted', 'bob', 'You’re going'],
    ['active', 'accepted', 'ann', 'You host'],
    ['active', 'invited', 'bob', 'You’re invited'],
    ['active', 'declined', 'bob', 'You declined'],
    ['active', null, 'bob', ''],
    ['archived', 'accepted', 'bob', 'You were there'],
    ['archived', 'accepted', 'ann', 'You hosted'],
    ['archived', 'invited', 'bob', 'You were invited'],
  ]
  for (const [status, my_participation, viewer, text] of rows) {
    t.equal(words.partOf({ owner_id: 'ann', status, my_participation }, viewer), text)
  }
})

t.test('places, hosts and counts', async (t) => {
  t.equal(words.placeOf({ location_name: 'Pier 7', location_geo: [1, 2] }), 'Pier 7')
  t.equal(words.placeOf({ location_name: null, location_geo: [35.6586, 139.7454] }), '35.6586, 139.7454')
  t.equal(words.placeOf({ location_name: null, location_geo: null }), '')
  t.equal(words.hostOf({ host_name: null }), 'Hosted by a member')
  t.equal(words.going({ participant_count: 1, status: 'active' }), '1 going')
  t.equal(words.going({ participant_count: 1, status: 'archived' }), '1 participant')
})

t.test('what a viewer should know first', async (t) => {
  const note = (status: string, my_participation: string | null) => words.noteOn({ status, my_participation })
  t.match(note('draft', 'accepted'), /draft.*Activate/)
  t.match(note('archived', 'invited'), /archived/)
  t.match(note('active', 'invited'), /link/)
  t.strictSame([note('active', 'accepted'), note('active', null)], ['', ''])
  // Also who has declined before can be invited again.
  for (const part of ['invited', 'declined']) {
    t.match(words.noteOn({ status: 'active', my_participation: part, my_invitation_id: 'inv_1' }), /Accept/)
  }
})

t.test('an archived event goes on a day of the viewer', async (t) => {
  t.equal(words.goesOn({ purge_at: '2027-05-08T23:30:00Z' }, WHERE), 'Will be deleted on 9 May 2027')
  t.equal(words.goesOn({ purge_at: null }, WHERE), '')
})

t.test('participants in groups', async (t) => {
  const people = ['invited', 'accepted', 'invited'].map((status, i) => ({ user_id: i, status }))
  const groups = (status: string) =>
    words.groupsOf(people, { status }).map((g: { title: string; people: object[] }) => [g.title, g.people.length])
  t.strictSame(groups('active'), [
    ['Going', 1],
    ['Invited', 2],
  ])
  t.strictSame(groups('archived'), [
    ['Took part', 1],
    ['Invited', 2],
  ])
})

t.test('everyone but the host can be removed, and a host who has left', async (t) => {
  const can = (user_id: string, host_name: string | null) =>
    words.isRemovable({ user_id }, { owner_id: 'ann', host_name })
  t.strictSame([can('bob', 'Ann'), can('ann', 'Ann'), can('ann', null)], [true, false, true])
})

t.test('what members are to an event already, by the ids of the list of members', async (t) => {
  const [ann, bob, cem, dot] = [newUuid(), newUuid(), newUuid(), newUuid()]
  const parts = invitation.partsIn([
    { user_id: formatId('user', ann), status: 'accepted' },
    { user_id: formatId('user', bob), status: 'invited' },
    { user_id: formatId('user', cem), status: 'declined' },
  ])
  t.strictSame(
    [ann, bob, cem, dot].map((id) => parts.get(id)),
    ['Going', 'Invited', undefined, undefined],
  )
})

t.test('ids and UUIDs are the same', async (t) => {
  for (let i = 0; i < 50; i++) {
    const id = newUuid()
    t.equal(uuidOf(formatId('user', id)), id)
    t.equal(uuidOf(id.toUpperCase()), id)
  }
  t.equal(
    uuidOf(formatId('user', '00000000-0000-0000-0000-000000000001' as never)),
    '00000000-0000-0000-0000-000000000001',
  )
})

t.test('the state of an invitation', async (t) => {
  const of = (status: string, event = 'active') =>
    invitation.invitationState({ status, token_expires_at: hours(0.5) }, { status: event }, NOW)
  const answered = (by: string, invitee: object) =>
    invitation.invitationState(
      { status: 'declined', responded_by: by, invitee },
      EVENT,
      NOW,
      new Map([['usr_1', 'Bob']]),
    )
  t.strictSame(
    [
      answered('usr_1', { email: 'b***@example.org' }),
      answered('usr_1', { display_name: 'Bob' }),
      answered('usr_2', {}),
    ],
    ['Declined by Bob', 'Declined', 'Declined'],
  )
  t.equal(of('pending'), 'Open · 30 minutes left')
  t.strictSame(
    ['accepted', 'declined', 'expired'].map((s) => of(s)),
    ['Accepted', 'Declined', 'Link expired'],
  )
  t.strictSame(
    [of('pending', 'archived'), of('expired', 'archived'), of('accepted', 'archived')],
    ['Not answered', 'Not answered', 'Accepted'],
  )
  const name = (invitee: object) =>
    invitation.inviteeOf({ invitee: { display_name: null, email: null, phone_number: null, ...invitee } })
  t.equal(name({ email: 'b***@example.org' }), 'b***@example.org')
  t.equal(name({ display_name: 'Bob', email: 'b***@example.org' }), 'Bob')
  t.equal(name({}), 'A person with an account')
})

t.test('how long a link works', async (t) => {
  const left = (minutes: number) => invitation.linkLeft(hours(minutes / 60), NOW)
  t.strictSame([60, 59, 1.5, 0.2, 0, -5].map(left), [
    '1 hour left',
    '59 minutes left',
    '2 minutes left',
    '1 minute left',
    'The link has expired',
    'The link has expired',
  ])
})

const EVENT = {
  title: 'Reunion',
  description: 'Thirty\nyears',
  start_at: new Date(2027, 4, 8, 16, 0, 31).toISOString(),
  end_at: null,
  location_name: null,
}
const FORM = {
  title: 'Reunion',
  description: 'Thirty\r\nyears',
  start_at: '2027-05-08T16:00',
  end_at: '',
  location_name: '',
}

t.test('only what was changed is sent', async (t) => {
  t.strictSame(words.changesOf(EVENT, FORM), {}, 'neither the seconds nor the line ends')
  const later = new Date(2027, 4, 8, 17, 0).toISOString()
  t.strictSame(words.changesOf(EVENT, { ...FORM, start_at: '2027-05-08T17:00' }), { start_at: later })
  t.strictSame(words.changesOf(EVENT, { ...FORM, description: ' ', location_name: ' Pier 7 ' }), {
    description: null,
    location_name: 'Pier 7',
  })
  t.strictSame(words.changesOf({ ...EVENT, end_at: later }, FORM), { end_at: null })
  t.strictSame(words.changesOf(undefined, FORM), {
    title: 'Reunion',
    description: 'Thirty\r\nyears',
    start_at: new Date(2027, 4, 8, 16).toISOString(),
  })
  t.equal(words.toLocalInput(words.usualStart(NOW)), '2027-05-15T18:00')
})

t.test('what is wrong with a form', async (t) => {
  t.strictSame(words.mistakesIn(FORM), {})
  t.strictSame(Object.keys(words.mistakesIn({ title: ' ', start_at: '', end_at: '' })), ['title', 'start_at'])
  t.strictSame(words.mistakesIn({ ...FORM, end_at: '2027-05-08T16:00' }), {}, 'it may end when it starts')
  t.match(words.mistakesIn({ ...FORM, end_at: '2027-05-08T15:59' }), { end_at: /before the start/ })
})

t.test('addresses of views', async (t) => {
  const rows: [string, object, string][] = [
    ['', { name: 'photos' }, ''],
    ['#photos', { name: 'photos' }, ''],
    ['#trash', { name: 'trash' }, '#trash'],
    ['#events', { name: 'events' }, '#events'],
    ['#event=evt_1', { name: 'event', id: 'evt_1' }, '#event=evt_1'],
    ['#event=', { name: 'photos' }, ''],
    ['#key=k&account=member&event=evt_1', { name: 'event', id: 'evt_1' }, '#event=evt_1'],
    ['#key=k&account=member&media=med_1', { name: 'photos' }, ''],
    ['#key=k&account=member', { name: 'photos' }, ''],
  ]
  for (const [hash, view, rest] of rows) {
    t.strictSame(viewOf(hash), view, hash)
    t.equal(withoutKey(hash), rest, hash)
  }
  t.strictSame(viewOf(new URL(linkToEvent('evt_1'), 'http://x').hash), { name: 'event', id: 'evt_1' })
})

const refusal = (code: string, more: object = {}) => ({
  code,
  status: { ...PROBLEMS, OFFLINE: 0, UNKNOWN: 502 }[code],
  message: 'Words of the API',
  ...more,
})

t.test('refusals in words', async (t) => {
  for (const code of ['EVENT_ARCHIVED', 'ALREADY_INVITED', 'NOT_FOUND', 'OFFLINE', 'SERVICE_UNAVAILABLE', 'UNKNOWN']) {
    t.notMatch(inWords(refusal(code)), /Words of the API|_/, code)
  }
  t.equal(inWords(refusal('CONFLICT')), 'Words of the API')
  t.equal(inWords(refusal('NOT_FOUND'), { NOT_FOUND: 'Gone' }), 'Gone')
  t.equal(inWords(refusal('RATE_LIMITED', { retryAfter: 7 })), 'That was too often. Try again in 7 seconds.')
  t.strictSame([0.2, 1, 89, 90, 3600, 7200, undefined].map(inAWhile), [
    'in 1 second',
    'in 1 second',
    'in 89 seconds',
    'in 2 minutes',
    'in 60 minutes',
    'in 2 hours',
    'in 60 seconds',
  ])
  const details = [{ field: 'body.end_at', issue: 'must not be before start_at' }]
  t.strictSame(fieldWords(refusal('VALIDATION_ERROR', { details })), { end_at: 'This must not be before start_at.' })
  t.strictSame(fieldWords(refusal('NOT_FOUND', { details })), {})
})

t.test('why an invitation cannot be shown or answered, and which button helps', async (t) => {
  const who = { name: 'Bob', host: 'Ann' }
  const answered: [string, RegExp, string | undefined, boolean][] = [
    ['NOT_FOUND', /not for you/, 'switch', false],
    ['INVITATION_EXPIRED', /expired/, 'renew', false],
    ['INVITATION_ALREADY_USED', /answered already/, 'open', false],
    ['EVENT_ARCHIVED', /archived/, undefined, false],
    ['INVALID_STATE_TRANSITION', /cannot bring you in/, undefined, false],
    ['VALIDATION_ERROR', /refused/, 'retry', false],
    ['UNAUTHORIZED', /session/, 'switch', true],
    ['RATE_LIMITED', /Too many/, 'retry', true],
    ['OFFLINE', /may not have arrived/, 'retry', true],
    ['UNKNOWN', /may not have arrived/, 'retry', true],
    ['SERVICE_UNAVAILABLE', /may not have arrived/, 'retry', true],
    ['IDEMPOTENCY_IN_PROGRESS', /may not have arrived/, 'retry', true],
  ]
  for (const [code, title, does, repeats] of answered) {
    const said = invitation.answerProblem(refusal(code), who)
    t.match(said.title, title, code)
    t.equal(said.does, does, code)
    t.ok(said.text.length > 0, code)
    t.equal(invitation.mayRepeat(refusal(code)), repeats, code)
  }
  t.match(invitation.answerProblem(refusal('NOT_FOUND'), who).text, /signed in as Bob.*Ann/)
  t.match(
    invitation.answerProblem(refusal('INVITATION_EXPIRED'), { name: 'Bob', host: null }).text,
    /the person who invited you/,
  )
  for (const [code, title] of [
    ['NOT_FOUND', /no such/],
    ['VALIDATION_ERROR', /no such/],
    ['RATE_LIMITED', /Too many/],
    ['OFFLINE', /cannot be shown/],
  ] as const) {
    t.match(invitation.lookUpProblem(refusal(code)).title, title, code)
  }
  t.match(invitation.outcomeWords('accepted', { title: 'Reunion', host: 'Ann' }), { title: /in!/, text: /Reunion/ })
  t.match(invitation.outcomeWords('accepted', { title: 'Reunion', host: 'Ann' }, true), {
    text: /among your events.*guest/,
  })
  t.match(invitation.outcomeWords('declined', { title: 'Reunion', host: null }), {
    title: /declined/,
    text: /The host/,
  })
  t.equal(invitation.slugOf('/i/k7m2qx9a'), 'K7M2QX9A')
})
