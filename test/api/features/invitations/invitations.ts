import t from 'tap'
import { invitationTokens } from '../../../../api/features/invitations/token.ts'
import { signToken } from '../../../../api/features/media/delivery/token.ts'
import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { progressToken } from '../../../../lib/contract/progress.ts'
import { aPerson, type Person, pathOf, startApiOn, startTestApi, uuidOf } from '../../../support/api.ts'
import { ask } from '../../../support/ask.ts'
import { anEvent } from '../../../support/events.ts'
import { asInvitation, invitationWorld, tokenOf } from '../../../support/invitations.ts'
import { aMember } from '../../../support/organizations.ts'

/** What an invitation goes through, and who may do what with it. */
const api = await startTestApi(t, { settings: { APP_URL: 'https://app.example' } })
const { admin } = api.database
const world = invitationWorld(api)
const { owner, admin: orgAdmin, member, another, stranger, platformAdmin } = api.people

/** A user with a verified e-mail address, as the first sign-in leaves one. */
async function aUserWith(email: string): Promise<Person> {
  const person = await aPerson(api)
  await admin.query('update users set email = $2 where id = $1', [person.id, email])
  return person
}
const audited = async (requestId: string | null) =>
  (
    await admin.query('select action, resource_type, details from audit_log where request_id = $1 order by action', [
      requestId,
    ])
  ).rows

t.test('a new invitation is a link, and says nothing of the address', async (t) => {
  const at = await world.event()
  const answer = await world.tryInvite(at, { email: 'Ann@Example.ORG', message: 'Come!' })
  t.equal(answer.status, 201)
  t.strictSame(Object.keys(answer.data).sort(), [
    'invitation_id',
    'invite_url',
    'qr_png_url',
    'slug',
    'token_expires_at',
  ])
  const made = asInvitation(answer.data)
  t.match(made.url, new RegExp(`^https://app\\.example/i/${made.slug}#t=[\\w-]+\\.[\\w-]+\\.[\\w-]+$`))
  const { rows } = await admin.query(
    `select extract(epoch from token_expires_at - now())::int as seconds, token_expires_at, email, generation from invitations where id = $1`,
    [made.id],
  )
  t.ok(rows[0].seconds <= 3600 && rows[0].seconds > 3000)
  t.equal(answer.data.token_expires_at, rows[0].token_expires_at.toISOString())
  t.match(rows[0], { email: 'ann@example.org', generation: 1 })
  t.match(await audited(answer.headers.get('x-request-id')), [
    { action: 'EVENT_INVITE', resource_type: 'invitation', details: { operation: 'create', event_id: at.wireId } },
  ])
  t.strictSame(await world.announced('InvitationCreated', at), [
    {
      invitation_id: made.wireId,
      event_id: at.wireId,
      org_id: api.org,
      invited_by: member.wireId,
      invited_user_id: null,
    },
  ])
})

t.test('an invitation of someone who is no member is recorded as one to the organization, too', async (t) => {
  const address = world.newEmail()
  const [guest, joined] = [await aPerson(api), await aUserWith(address.toUpperCase())]
  const first = await world.event()
  await world.respond(joined, await world.invite(first, { email: address }), {})
  t.ok(await world.isMember(joined))
  const at = await world.event()
  for (const [what, invitee, isNew] of [
    ['an address that no member has', { email: world.newEmail() }, true],
    ['the address of a member', { email: address }, false],
    ['a phone number', { phone_number: '+491701234567' }, true],
    ['a user', { uuid: guest.wireId }, true],
    ['a member', { uuid: another.wireId }, false],
  ] as const) {
    const answer = await world.tryInvite(at, invitee)
    t.equal(answer.status, 201, what)
    const { rows } = await admin.query(
      `select action, resource_type, resource_id, details from audit_log where request_id = $1 order by action`,
      [answer.headers.get('x-request-id')],
    )
    const entry = { resource_type: 'invitation', resource_id: asInvitation(answer.data).id }
    const entries = (isNew ? ['EVENT_INVITE', 'MEMBER_INVITE'] : ['EVENT_INVITE']).map((action) => ({
      action,
      ...entry,
      details: { operation: 'create', event_id: at.wireId },
    }))
    t.strictSame(rows, entries, what)
  }
})

t.test('an invitation has exactly one invitee', async (t) => {
  const at = await world.event()
  const email = world.newEmail()
  const wrong: unknown[] = [
    {},
    { message: 'x' },
    { email: null },
    { email, phone_number: '+491701234567' },
    { email, uuid: another.wireId },
    { email: 'x' },
    { email: 'a@b' },
    { email: `${'a'.repeat(250)}@example.org` },
    { email: 'ann@example.org\nbob@example.org' },
    { email: 'Ann <ann@example.org>' },
    { email: 'ann@example.org, bob@example.org' },
    { email: 'ann@exam\0ple.org' },
    { phone_number: '0170 1234567' },
    { phone_number: '+0170123456' },
    { phone_number: '+1' },
    { phone_number: '+1234567890123456' },
    { phone_number: 491701234567 },
    { uuid: 'x' },
    { uuid: formatId('media', another.id) },
    { email: null, phone_number: null, uuid: null },
    { email, message: 'x'.repeat(1001) },
  ]
  for (const json of wrong) {
    const { status, code } = await world.tryInvite(at, json)
    t.strictSame([status, code], [400, 'VALIDATION_ERROR'], JSON.stringify(json))
  }
  for (const address of [
    ...[
      'ivan@xn--e1afmkfd.xn--p1ai',
      'a&b@example.org',
      'first/last@example.org',
      'bob=tag@example.org',
      "x'@example.org",
    ],
    ...[' bob@example.org', 'bob.b@example.org \n'],
  ]) {
    t.equal((await world.row(await world.invite(at, { email: address }))).email, address.trim())
  }
  const { phone_number } = await world.row(await world.invite(at, { phone_number: ' +491701234568 ' }))
  t.equal(phone_number, '+491701234568')
  const unknown = await world.tryInvite(at, { uuid: formatId('user', newUuid()) })
  t.strictSame([unknown.status, unknown.body.error.details[0].field], [404, 'body.uuid'])
  const nothing = { email: null, phone_number: null, uuid: null }
  for (const json of [{ email }, { phone_number: '+491701234567' }, { uuid: another.id }]) {
    t.equal((await world.tryInvite(at, { ...nothing, ...json })).status, 201, 'null is as good as nothing')
  }
  const unsaid = await world.invite(at, { email: world.newEmail(), message: ' ' })
  t.equal((await world.row(unsaid)).message, null, 'so is an empty message')
})

t.test('an invitee has one pending invitation to an event', async (t) => {
  const at = await world.event()
  const email = world.newEmail()
  const invitee = await aPerson(api)
  for (const json of [{ email }, { phone_number: '+491701234567' }, { uuid: invitee.wireId }]) {
    const first = await world.invite(at, json)
    const again = 'email' in json ? { email: json.email?.toUpperCase() } : json
    const second = await world.tryInvite(at, again)
    t.strictSame([second.status, second.code], [409, 'ALREADY_INVITED'])
    await world.expire(first)
    t.equal((await world.tryInvite(at, json)).code, 'ALREADY_INVITED', 'an expired one is reissued')
    t.equal((await world.tryInvite(await world.event(), json)).status, 201, 'to another event')
  }
  const [answered] = await Promise.all([world.invite(at, { email: world.newEmail() })])
  await world.respond(invitee, answered, { token: answered.token, response: 'decline' })
  const { email: address } = await world.row(answered)
  t.equal((await world.tryInvite(at, { email: address })).status, 201, 'after a response')
  t.equal((await world.tryInvite(at, { uuid: member.wireId })).code, 'ALREADY_INVITED', 'who takes part already')
})

t.test('the owner and administrators invite and list', async (t) => {
  const at = await world.event()
  for (const who of [member, owner, orgAdmin]) {
    await world.invite(at, undefined, who)
    t.equal((await world.list(at, who)).status, 200)
  }
  for (const who of [another, stranger, platformAdmin]) {
    t.equal((await world.tryInvite(at, undefined, who)).status, 404)
    t.equal((await world.list(at, who)).status, 404)
  }
})

t.test('the list shows states, and masks addresses', async (t) => {
  const at = await world.event()
  const [outsider, guest] = [await aPerson(api), await aPerson(api)]
  for (const who of [outsider, another])
    await admin.query(`update users set display_name = 'Zoe' where id = $1`, [who.id])
  const byEmail = await world.invite(at, { email: 'ann@example.org' })
  const byPhone = await world.invite(at, { phone_number: '+491701234567' })
  const byUser = await world.invite(at, { uuid: another.wireId }, orgAdmin)
  const ofOutsider = await world.invite(at, { uuid: outsider.wireId })
  await world.expire(byPhone)
  await world.respond(guest, byEmail, { token: byEmail.token, response: 'decline', message: 'Next time!' })
  const { data, body } = await world.list(at)
  const invitee = { email: null, phone_number: null, user_id: null, display_name: null }
  const times = { created_at: /Z$/, token_expires_at: /Z$/, opened_at: null, clicked_at: null }
  t.match(data.invitations, [
    {
      invitation_id: ofOutsider.wireId,
      status: 'pending',
      channel: 'uuid',
      invitee: { ...invitee, user_id: outsider.wireId },
    },
    {
      ...{ invitation_id: byUser.wireId, slug: byUser.slug, status: 'pending', channel: 'uuid', ...times },
      invitee: { ...invitee, user_id: another.wireId, display_name: 'Zoe' },
      invited_by: orgAdmin.wireId,
      responded_at: null,
      responded_by: null,
      response_message: null,
    },
    { status: 'expired', channel: 'phone_number', invitee: { ...invitee, phone_number: '+49********67' } },
    {
      status: 'declined',
      channel: 'email',
      invitee: { ...invitee, email: 'a***@example.org' },
      responded_at: /Z$/,
      responded_by: guest.wireId,
      response_message: 'Next time!',
    },
  ])
  t.notMatch(JSON.stringify(body), /ann@|1234567/)
})

t.test('the invitee accepts without a token, and becomes a member and a participant', async (t) => {
  const at = await world.event()
  const email = world.newEmail()
  const invitees = [
    [await aUserWith(email.toUpperCase()), { email }],
    [await aPerson(api), undefined],
  ] as const
  for (const [person, by] of invitees) {
    const made = await world.invite(at, by ?? { uuid: person.wireId })
    t.equal(await world.participation(at, person), by ? undefined : 'invited')
    const answer = await world.respond(person, made, { message: 'Yes!' })
    t.strictSame([answer.status, answer.data.status, answer.data.event_id], [200, 'accepted', at.wireId])
    t.strictSame([await world.participation(at, person), await world.isMember(person)], ['accepted', true])
    t.match(await world.row(made), { status: 'accepted', responded_by: person.id, response_message: 'Yes!' })
    t.match(await audited(answer.headers.get('x-request-id')), [
      { action: 'EVENT_ACTION', resource_type: 'event', details: { operation: 'accept', invitation_id: made.wireId } },
      { action: 'MEMBER_INVITE', resource_type: 'user' },
    ])
    const { rows } = await admin.query(`select payload from outbox where type = 'MemberJoined' and aggregate_id = $1`, [
      person.id,
    ])
    t.match(rows, [{ payload: { org_id: api.org, user_id: person.wireId, joined_at: /Z$/ } }])
    const me = await api.call(person, 'GET', '/api/users/me')
    t.equal(me.data.organizations[0].org_id, api.org)
  }
})

t.test('a user who has the token responds, once', async (t) => {
  const at = await world.event()
  const made = await world.invite(at)
  const guest = await aPerson(api)
  t.equal((await world.respond(guest, made, {})).code, 'NOT_FOUND')
  t.equal((await world.respond(guest, made, { token: made.token })).data.status, 'accepted')
  for (const who of [guest, another]) {
    const again = await world.respond(who, made, { token: made.token, response: 'decline' })
    t.strictSame([again.status, again.code], [409, 'INVITATION_ALREADY_USED'])
  }
  t.equal((await world.respond(another, made, {})).code, 'NOT_FOUND', 'others learn nothing')
  t.equal(await world.participation(at, guest), 'accepted')
})

t.test('a member who accepts joins nothing, and keeps the role', async (t) => {
  const at = await world.event()
  const made = await world.invite(at, { uuid: orgAdmin.wireId })
  const answer = await world.respond(orgAdmin, made, {})
  t.equal(answer.status, 200)
  t.strictSame(
    (await audited(answer.headers.get('x-request-id'))).map(({ action }) => action),
    ['EVENT_ACTION'],
  )
  const { rows } = await admin.query('select role from memberships where user_id = $1', [orgAdmin.id])
  t.strictSame(rows, [{ role: 'admin' }])
})

t.test('who declines takes no part, and joins nothing', async (t) => {
  const at = await world.event()
  const [outsider, byToken] = [await aPerson(api), await aPerson(api)]
  const invited = await world.invite(at, { uuid: outsider.wireId })
  t.equal((await world.respond(outsider, invited, { response: 'decline' })).data.status, 'declined')
  t.strictSame([await world.participation(at, outsider), await world.isMember(outsider)], ['declined', false])
  const open = await world.invite(at)
  await world.respond(byToken, open, { response: 'decline', token: open.token })
  t.strictSame([await world.participation(at, byToken), await world.isMember(byToken)], [undefined, false])
  const ofMember = await world.invite(at)
  await world.respond(another, ofMember, { response: 'decline', token: ofMember.token })
  t.equal(await world.participation(at, another), 'declined')
  t.equal((await world.tryInvite(at, { uuid: another.wireId })).status, 201, 'and may be invited again')
  t.equal(await world.participation(at, another), 'invited')
  const forwarded = await world.invite(at)
  await world.respond(member, forwarded, { response: 'decline', token: forwarded.token })
  t.equal(await world.participation(at, member), 'accepted', 'the owner is no less a participant')
})

const JOB = { kind: 'TranscodeJob', namespace: 'media', name: 'tj-x', uid: newUuid(), jobName: 'tj-x' } as const

t.test('no other token opens an invitation', async (t) => {
  const at = await world.event()
  const [made, other] = [await world.invite(at), await world.invite(at)]
  const guest = await aPerson(api)
  const reissued = asInvitation((await world.reissue(member, made)).data)
  const [header, payload] = reissued.token.split('.')
  const wrong = {
    'of another invitation': other.token,
    'of the previous generation': made.token,
    'an access token': guest.token,
    'without a signature': `${header}.${payload}.`,
    'of the QR code': pathOf(reissued.qrUrl).split('/')[2],
    'of a signed link, for the invitation': signToken(api.config.LINK_KEYS, made.id, 4e9),
    'of a Job that reports progress': progressToken(api.config.LINK_KEYS.keys['a'] ?? '', JOB),
    'of a page': (await api.call(member, 'GET', '/api/users/me/connected-members?limit=1')).data.next_cursor,
    'an ID token': await api.identity.token({ sub: guest.id, header: { typ: 'JWT' } }),
    nonsense: 'x',
  }
  for (const [what, token] of Object.entries(wrong)) {
    const { status, code } = await world.respond(guest, made, { token })
    t.strictSame([status, code], [404, 'NOT_FOUND'], what)
  }
  for (const json of [
    { response: 'maybe' },
    { token: 7 },
    { token: 'x'.repeat(1025) },
    { message: 'x'.repeat(1001) },
  ]) {
    t.equal((await world.respond(guest, made, json)).status, 400)
  }
  t.equal((await api.call({ ...guest, token: reissued.token }, 'GET', '/api/users/me')).status, 401)
  t.equal((await world.row(made)).status, 'pending')
  t.equal((await world.respond(guest, made, { token: reissued.token })).status, 200)
})

t.test('the clock of the database says when a token has expired', async (t) => {
  const at = await world.event()
  const [made, ofUser] = [await world.invite(at), await world.invite(at, { uuid: another.wireId })]
  const guest = await aPerson(api)
  await admin.query(`update invitations set token_expires_at = now() - interval '1 second' where id = $1`, [ofUser.id])
  const late = await world.respond(another, ofUser, {})
  t.equal(late.status, 200, 'a link expires; the invitee needs none')
  // The token of the row as it is now, which a client would have got an hour ago.
  await world.expire(made)
  const { token_expires_at } = await world.row(made)
  const expires = token_expires_at.getTime() / 1000
  const token = await invitationTokens(api.config.LINK_KEYS).mint({ id: made.id, generation: 1, expires })
  const { status, code } = await world.respond(guest, made, { token })
  t.strictSame([status, code], [422, 'INVITATION_EXPIRED'])
  const revived = asInvitation((await world.reissue(member, made)).data)
  t.equal((await world.respond(guest, made, { token: revived.token })).status, 200)
})

t.test('the clock of the API does not matter, neither ahead nor behind', async (t) => {
  for (const hours of [-2, 2]) {
    const clock = { now: () => new Date(Date.now() + hours * 3_600_000) }
    const { config, database, identity } = api
    const settings = { LINK_KEYS: JSON.stringify(config.LINK_KEYS) }
    const skewed = await startApiOn(t, { clock, settings, database, identity })
    const at = await world.event()
    const [valid, old] = [await world.invite(at), await world.invite(at)]
    const guest = await aPerson(api)
    const seconds = Math.floor(clock.now().getTime() / 1000)
    const token = await identity.token({ sub: guest.id, claims: { iat: seconds, exp: seconds + 900 } })
    const respond = async ({ wireId }: { wireId: string }, invitation: string) =>
      ask(skewed.port, {
        ...{ method: 'POST', path: `/v1/api/invitations/${wireId}/respond` },
        headers: { authorization: `Bearer ${token}` },
        body: { response: 'accept', token: invitation },
      })
    await world.expire(old)
    const expires = (await world.row(old)).token_expires_at.getTime() / 1000
    const expired = await invitationTokens(config.LINK_KEYS).mint({ id: old.id, generation: 1, expires })
    t.match(await respond(old, expired), { status: 422, json: { error: { code: 'INVITATION_EXPIRED' } } })
    t.match(await respond(valid, valid.token), { status: 200, json: { data: { status: 'accepted' } } })
  }
})

t.test('a link survives a change of the key, until the key is removed', async (t) => {
  const at = await world.event()
  const [first, second] = [await world.invite(at), await world.invite(at)]
  const { keys } = api.config.LINK_KEYS
  const on = async (ring: object, path: string, token: string) => {
    const started = await startApiOn(t, {
      database: api.database,
      identity: api.identity,
      settings: { LINK_KEYS: JSON.stringify(ring) },
    })
    const answer = await fetch(`${started.publicUrl}/v1/api/invitations/${path}/respond`, {
      method: 'POST',
      headers: { authorization: `Bearer ${another.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ response: 'decline', token }),
    })
    return answer.status
  }
  t.equal(await on({ current: 'b', keys: { b: keys['b'] } }, first.wireId, first.token), 404)
  t.equal(await on({ current: 'b', keys }, second.wireId, second.token), 200)
})

t.test('the inviter, the owner and administrators reissue, before a response only', async (t) => {
  const at = await world.event('active', another)
  const made = await world.invite(at, undefined, orgAdmin)
  for (const who of [another, orgAdmin, owner]) {
    const answer = await world.reissue(who, made)
    t.equal(answer.status, 200)
    t.equal(answer.data.slug, made.slug)
    t.not(tokenOf(answer.data.invite_url), made.token)
    t.equal((await world.row(made)).invited_by, who.id, 'and vouches for it')
    t.match(await audited(answer.headers.get('x-request-id')), [
      { action: 'EVENT_ACTION', details: { operation: 'reissue', invitation_id: made.wireId } },
    ])
  }
  for (const who of [member, stranger, platformAdmin]) t.equal((await world.reissue(who, made)).status, 404)
  t.equal((await world.row(made)).generation, 4)
  const { data } = await world.reissue(another, made)
  await world.respond(await aPerson(api), made, { token: tokenOf(data.invite_url), response: 'decline' })
  const late = await world.reissue(another, made)
  t.strictSame([late.status, late.code], [422, 'INVALID_STATE_TRANSITION'])
})

t.test('the message is for those who list the invitations or present the token', async (t) => {
  const at = await world.event()
  const message = 'Come!\nBring photos.'
  const made = await world.invite(at, { email: world.newEmail(), message })
  const other = await world.invite(at, { email: world.newEmail(), message: 'Another' })
  const silent = await world.invite(at)
  const shown = async ({ slug }: { slug: string }, token?: string) => {
    const headers = token === undefined ? {} : { 'x-invitation-token': token }
    const answer = await api.call(undefined, 'GET', `/api/invitations/by-slug/${slug}`, { headers })
    t.equal(answer.status, 200)
    return answer.data.message
  }
  t.equal(await shown(made, made.token), message)
  t.equal(await shown(made), null, 'the slug is no credential')
  for (const wrong of [other.token, `${made.token}x`, made.token.slice(0, -1), 'x', '', 'a.b.c', member.token]) {
    t.equal(await shown(made, wrong), null)
  }
  t.equal(await shown(silent, silent.token), null)
  const reissued = tokenOf((await world.reissue(member, made)).data.invite_url)
  t.strictSame([await shown(made, made.token), await shown(made, reissued)], [null, message], 'the newest link')
  t.equal((await world.respond(await aPerson(api), made, { token: reissued })).status, 200)
  t.equal(await shown(made, reissued), message, 'also after the answer')
  await world.expire(other)
  t.equal(await shown(other, other.token), null, 'an expired link')
  const listed = (await world.list(at)).data.invitations.map((one: { message: string | null }) => one.message)
  t.strictSame(listed, [null, 'Another', message])
})

t.test('a draft is not there for those who are invited, and an archived event is read-only', async (t) => {
  const at = await world.event('draft')
  const made = await world.invite(at, { uuid: stranger.wireId })
  const guest = await aPerson(api)
  const show = () => api.call(undefined, 'GET', `/api/invitations/by-slug/${made.slug}`)
  t.equal((await show()).status, 404)
  for (const [who, json] of [
    [stranger, {}],
    [guest, { token: made.token }],
  ] as const) {
    t.strictSame((await world.respond(who, made, json)).code, 'NOT_FOUND')
  }
  await world.setStatus(at, 'active')
  t.match((await show()).data, { invitation_id: made.wireId, title: 'Class reunion', host_name: null })
  await world.setStatus(at, 'archived')
  const refused = [
    await world.respond(stranger, made, {}),
    await world.reissue(member, made),
    await world.tryInvite(at),
  ]
  for (const { status, code } of refused) t.strictSame([status, code], [422, 'EVENT_ARCHIVED'])
  t.equal((await world.respond(guest, made, {})).code, 'NOT_FOUND', 'others learn nothing')
  t.equal((await world.list(at)).status, 200, 'it can be read')
})

t.test('a slug shows title and host to anyone, in either case', async (t) => {
  const at = await world.event('active', orgAdmin)
  await admin.query(`update users set display_name = 'Ann' where id = $1`, [orgAdmin.id])
  const made = await world.invite(at, undefined, orgAdmin)
  for (const slug of [made.slug, made.slug.toLowerCase()]) {
    const { status, data } = await api.call(undefined, 'GET', `/api/invitations/by-slug/${slug}`)
    t.strictSame(
      [status, data],
      [
        200,
        {
          ...{ invitation_id: made.wireId, title: 'Class reunion', host_name: 'Ann' },
          ...{ start_at: null, end_at: null, location_name: null, organization_name: null, message: null },
        },
      ],
    )
  }
  for (const slug of [
    '22222222',
    'K0000000',
    'OIL10OIL',
    made.slug.slice(1),
    `${made.slug}2`,
    made.wireId,
    '%00',
    'ß'.repeat(8),
  ]) {
    const path = `/api/invitations/by-slug/${slug.startsWith('%') ? slug : encodeURIComponent(slug)}`
    t.strictSame([slug, (await api.call(undefined, 'GET', path)).code], [slug, 'NOT_FOUND'])
  }
})

t.test('an inviter who has left, or may no longer invite, makes no members', async (t) => {
  const at = await world.event('active', owner)
  const inviter = await aPerson(api)
  const role = (name: string) =>
    admin.query(
      `insert into memberships (org_id, user_id, role) values ($1, $2, $3) on conflict (org_id, user_id) do update set role = $3`,
      [world.orgId, inviter.id, name],
    )
  await role('admin')
  const [made, ofMember] = [
    await world.invite(at, undefined, inviter),
    await world.invite(at, { uuid: another.wireId }, inviter),
  ]
  const guest = await aPerson(api)
  const leave = () => admin.query('delete from memberships where user_id = $1', [inviter.id])
  for (const change of [() => role('member'), leave]) {
    await change()
    const refused = await world.respond(guest, made, { token: made.token })
    t.strictSame([refused.status, refused.code], [422, 'INVALID_STATE_TRANSITION'])
    t.notOk(await world.isMember(guest))
    t.equal((await world.row(made)).status, 'pending', 'nothing is used up')
  }
  t.equal((await world.respond(another, ofMember, {})).status, 200, 'a member needs no one who vouches')
  t.equal((await world.reissue(inviter, made)).status, 404)
  const taken = asInvitation((await world.reissue(owner, made)).data)
  t.equal((await world.respond(guest, made, { token: taken.token })).status, 200)
})

t.test('who is removed cannot come back with an invitation from before, and can be invited again', async (t) => {
  const remove = (as: Person, who: Person | 'me') =>
    api.call(as, 'DELETE', `/api/organizations/${api.org}/members/${who === 'me' ? who : who.wireId}`)
  const join = ({ id }: Person) =>
    admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [world.orgId, id])
  const [at, draft] = [await world.event(), await world.event('draft')]
  const email = world.newEmail()
  const guest = await aUserWith(email.toUpperCase())
  const phone_number = '+4915112340099'
  await admin.query('update users set phone_number = $2 where id = $1', [guest.id, phone_number])
  await join(guest)
  const [asUser, byEmail, later, byPhone] = [
    await world.invite(at, { uuid: guest.wireId }),
    await world.invite(at, { email }),
    await world.invite(draft, { uuid: guest.wireId }),
    await world.invite(at, { phone_number }),
  ]
  await world.expire(byEmail)
  await world.expire(byPhone)
  const [ofOther, toAddress] = [await world.invite(at, { uuid: another.wireId }), await world.invite(at)]
  const statesOf = async (made: { id: string }[]) =>
    (
      await admin.query('select status, generation from invitations where id = any ($1) order by id', [
        made.map(({ id }) => id),
      ])
    ).rows.map(({ status, generation }) => `${status} ${generation}`)

  t.equal((await remove(member, guest)).status, 404, 'a member removes nobody')
  t.equal((await remove(guest, 'me')).status, 204)
  t.strictSame(
    await statesOf([asUser, byEmail, later, byPhone]),
    Array(4).fill('pending 1'),
    'who leaves may come back',
  )
  await join(guest)
  const removed = await remove(orgAdmin, guest)
  t.equal(removed.status, 204)
  t.match(await audited(removed.headers.get('x-request-id')), [
    { action: 'ADMIN_ACTION', details: { operation: 'remove member', revoked_invitations: 4 } },
  ])
  t.strictSame(await statesOf([asUser, byEmail, later, byPhone]), Array(4).fill('revoked 2'))
  t.strictSame(await statesOf([ofOther, toAddress]), ['pending 1', 'pending 1'], 'those of others stay')

  const { data } = await world.list(at, owner)
  const listed = new Map(data.invitations.map((one: { invitation_id: string }) => [one.invitation_id, one]))
  t.match(listed.get(asUser.wireId), { status: 'revoked', responded_at: null, responded_by: null })
  await world.setStatus(draft, 'active')
  for (const made of [asUser, byEmail, later, byPhone]) {
    t.equal((await world.respond(guest, made, {})).status, 404)
    t.equal((await world.respond(guest, made, { response: 'decline', token: made.token })).status, 404)
    t.equal((await world.respond(stranger, made, { token: made.token })).status, 404, 'nor does a link work for others')
    t.equal((await api.call(undefined, 'GET', `/api/invitations/by-slug/${made.slug}`)).status, 404)
    const refused = await world.reissue(owner, made)
    t.strictSame([refused.status, refused.code], [422, 'INVALID_STATE_TRANSITION'])
  }
  t.notOk(await world.isMember(guest))
  const again = await world.invite(at, { uuid: guest.wireId })
  t.equal((await world.respond(guest, again, {})).status, 200)
  t.ok(await world.isMember(guest))
})

t.test('an event names the invitation that the caller can answer without a token', async (t) => {
  const guest = await aUserWith(world.newEmail())
  await admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'admin')`, [world.orgId, guest.id])
  const at = await world.event('draft')
  const made = await world.invite(at, { uuid: guest.wireId })
  const { rows } = await admin.query('select email from users where id = $1', [guest.id])
  await world.invite(at, { email: rows[0].email })
  /** In the list and in the detail. */
  const named = async (who: Person) => {
    const path = `/api/orgs/${at.org}/events`
    const [{ data: list }, { data: one }] = [
      await api.call(who, 'GET', `${path}?limit=100`),
      await api.call(who, 'GET', `${path}/${at.wireId}`),
    ]
    const listed = list.events.find((event: { event_id: string }) => event.event_id === at.wireId)
    return [listed.my_invitation_id, one.my_invitation_id]
  }
  const NONE = [null, null]
  const FOUND = [made.wireId, made.wireId]
  const refused = async (status: number) => t.equal((await world.respond(guest, made, {})).status, status)

  t.strictSame(await named(guest), NONE, 'of a draft')
  await refused(404)
  await world.setStatus(at, 'active')
  t.strictSame(await named(guest), FOUND)
  t.strictSame(await named(orgAdmin), NONE, 'it is for nobody else')
  await world.expire(made)
  t.strictSame(await named(guest), FOUND, 'a link expires, an invitation does not')
  await world.reissue(member, made)
  t.strictSame(await named(guest), FOUND)
  await world.setStatus(at, 'archived')
  t.strictSame(await named(guest), NONE, 'of an archived event')
  await refused(422)
  await world.setStatus(at, 'active')
  t.equal((await world.respond(guest, { wireId: (await named(guest))[0] }, { response: 'decline' })).status, 200)
  t.strictSame(await named(guest), NONE, 'answered')
  const again = await world.invite(at, { uuid: guest.wireId })
  t.strictSame(await named(guest), [again.wireId, again.wireId])
})

t.test('where accepting makes no members, it makes guests, who see the event and nothing else', async (t) => {
  const closed = await startTestApi(t, { settings: { JOIN_ORG_ON_ACCEPT: 'false', INVITATION_QR: 'false' } })
  const there = invitationWorld(closed)
  const { member, another } = closed.people
  const orgId = uuidOf('organization', closed.org)
  const anEventThere = () => anEvent(closed, { org: closed.org, orgId, owner: member })
  const at = await anEventThere()
  const [guest, invited] = [await aPerson(closed), await aPerson(closed)]
  await closed.database.admin.query('update users set display_name = $2 where id = $1', [guest.id, 'Gus'])
  const path = `/api/orgs/${closed.org}/events/${at.wireId}`
  const get = async (as: Person, below = '') => (await closed.call(as, 'GET', `${path}${below}`)).status

  const made = await there.invite(at)
  t.equal(made.qrUrl, null)
  await there.invite(at, { uuid: invited.wireId })
  await there.invite(await anEventThere(), { uuid: guest.wireId })
  t.strictSame([await get(guest), await get(guest, '/participants')], [404, 404], 'before the answer')
  t.equal((await there.respond(guest, made, { token: made.token })).status, 200)
  t.equal(await there.isMember(guest), false)
  t.equal(await there.participation(at, guest), 'accepted')

  const shown = await closed.call(guest, 'GET', path)
  t.match(shown.data, {
    event_id: at.wireId,
    my_participation: 'accepted',
    album_id: null,
    can: ['comment.create', 'comment.read', 'event.leave', 'event.read', 'reaction.add'],
  })
  const listed = await closed.call(guest, 'GET', `${path}/participants`)
  const names = listed.data.participants.map((one: Record<string, unknown>) => [one['user_id'], one['display_name']])
  t.strictSame(new Map(names).get(guest.wireId), 'Gus')
  t.equal(new Map(names).get(invited.wireId), null, 'who has not answered has no name here')
  t.strictSame([await get(invited), await get(invited, '/participants')], [404, 404], 'who has not answered')
  for (const hidden of ['/album', '/invitations']) t.equal(await get(guest, hidden), 404, hidden)
  const { status } = await closed.call(guest, 'GET', `/api/orgs/${closed.org}/events`)
  t.equal(status, 404, 'the events of the organization')
  t.equal((await closed.call(guest, 'PUT', path, { json: { title: 'Mine' } })).status, 404)

  await there.setStatus(at, 'archived')
  t.equal(await get(guest), 200, 'an archived event')
  await there.setStatus(at, 'draft')
  t.equal(await get(guest), 404, 'a draft')
  await there.setStatus(at, 'active')

  const leave = () => closed.call(guest, 'DELETE', `${path}/participants/me`)
  t.strictSame([(await leave()).status, await get(guest), (await leave()).status], [204, 404, 404], 'a guest leaves')
  const remove = () => closed.call(member, 'DELETE', `${path}/participants/${guest.wireId}`)
  const again = await there.invite(at, { uuid: guest.wireId })
  t.equal((await remove()).status, 204, 'an invitation that is withdrawn')
  t.equal((await there.respond(guest, again, { token: again.token })).status, 404)
  const third = await there.invite(at, { uuid: guest.wireId })
  t.equal((await there.respond(guest, third, {})).status, 200)
  t.strictSame(
    [(await remove()).status, await get(guest), (await remove()).status],
    [204, 404, 404],
    'a guest is removed',
  )
  const host = await closed.call(member, 'DELETE', `${path}/participants/${member.wireId}`)
  t.equal(host.code, 'INVALID_STATE_TRANSITION')
  t.equal((await closed.call(member, 'DELETE', `${path}/participants/me`)).status, 404)

  const second = await there.invite(at)
  t.equal((await there.respond(another, second, { token: second.token })).status, 200, 'members accept')
})

t.test('an owner who has left is no guest of the event, and invites no guests', async (t) => {
  const closed = await startTestApi(t, { settings: { JOIN_ORG_ON_ACCEPT: 'false' } })
  const there = invitationWorld(closed)
  const orgId = uuidOf('organization', closed.org)
  const host = await aMember(closed, orgId)
  const at = await there.event('active', host)
  const made = await there.invite(at, undefined, host)
  const path = `/api/orgs/${closed.org}/events/${at.wireId}`
  t.equal((await closed.call(host, 'GET', path)).status, 200)
  t.equal((await closed.call(host, 'DELETE', `/api/organizations/${closed.org}/members/me`)).status, 204)
  t.equal((await closed.call(host, 'GET', path)).status, 404)
  const late = await aPerson(closed)
  t.equal((await there.respond(late, made, { token: made.token })).code, 'INVALID_STATE_TRANSITION')
  t.equal(await there.participation(at, late), undefined)
})
