import t, { type Test } from 'tap'
import { MAX_TRANSACTIONS_PER_CALLER } from '../../api/limits/capacity.ts'
import { startRelay } from '../../api/worker/relay.ts'
import type { CloudEvent } from '../../lib/contract/events.ts'
import { newUuid, parseId, type Uuid } from '../../lib/contract/ids.ts'
import { albumWorld } from '../support/albums.ts'
import { aPerson, apiSettings, type Person, startTestApi, uuidOf } from '../support/api.ts'
import { startHoldingApi } from '../support/api-process.ts'
import { type Answer, ask } from '../support/ask.ts'
import { idIn, threadsIn } from '../support/comments.ts'
import { eventually } from '../support/eventually.ts'
import { highlightWorld } from '../support/highlights.ts'
import { asInvitation, invitationWorld } from '../support/invitations.ts'
import { aMember } from '../support/organizations.ts'
import { quietLog } from '../support/quiet-log.ts'

// A replica of the API, killed when many changes are right before their commit, or between their commit and their
// response; another one goes on.
const api = await startTestApi(t)
const { database, identity, config, people } = api
const { admin } = database
const world = invitationWorld(api)
const highlights = highlightWorld(api)
const { member, owner } = people
const albums = albumWorld(api)
const threads = threadsIn(api, { org: api.org, orgId: world.orgId, owner: member })

const settings = {
  ...apiSettings(database, config.STORE_FOLDER ?? ''),
  LINK_KEYS: JSON.stringify(config.LINK_KEYS),
  AUTH_ISSUER: identity.issuer,
  AUTH_AUDIENCE: identity.audience,
  AUTH_JWKS_URL: identity.jwksUrl,
}

interface Change {
  who: Person
  method: string
  path: string
  body?: object
}
interface Case {
  change: Change
  /** Types of the events that the change records, in the order of their names. */
  records: string[]
  /** Action of its audit entry. */
  audits: string
  /** What has to be true when the change was not committed, besides that nothing is recorded. */
  undone?(t: Test): Promise<unknown>
  /** What has to be true when the other replica has answered the repeat; `isDone` if the change was committed before. */
  holds(t: Test, again: Answer, isDone: boolean): Promise<unknown>
}

const send = (port: number, { who, method, path, body }: Change, key: string) =>
  ask(port, {
    ...{ method, path: `/v1${path}` },
    headers: { authorization: `Bearer ${who.token}`, 'idempotency-key': key },
    ...(body && { body }),
  })

interface Recorded {
  id: Uuid
  type: string
  payload: object
}
const outbox = async (): Promise<Recorded[]> =>
  (await admin.query('select id, type, payload from outbox order by type, id')).rows
const audited = async () =>
  (await admin.query('select action from audit_log order by id')).rows.map(({ action }) => action)

/** What has been recorded since. */
async function watch() {
  const [events, entries] = [await outbox(), await audited()]
  return async () => ({
    types: (await outbox()).filter(({ id }) => !events.some((one) => one.id === id)).map(({ type }) => type),
    actions: (await audited()).slice(entries.length),
  })
}

/** A draft or active event of `member`, and an invitation to it. */
async function invited(status: 'draft' | 'active' = 'active') {
  const at = await world.event(status)
  return { at, made: await world.invite(at) }
}
const onEvent = (at: { org: string; wireId: string }, what: string): Change => ({
  ...{ who: member, method: 'POST', path: `/api/orgs/${at.org}/events/${at.wireId}${what}` },
})
const onMember = (user: Person, method: string, body?: object): Change => ({
  ...{ who: owner, method, path: `/api/organizations/${api.org}/members/${user.wireId}` },
  ...(body && { body }),
})

const CASES: Record<string, () => Promise<Case>> = {
  async 'a new event'() {
    const path = `/api/orgs/${api.org}/events`
    return {
      change: { who: member, method: 'POST', path, body: { title: 'Reunion', start_at: '2027-05-08T16:00:00Z' } },
      records: ['EventCreated'],
      audits: 'EVENT_CREATE',
      async holds(t, { status, json }) {
        t.equal(status, 201)
        t.match((await api.call(member, 'GET', `${path}/${json.data.event_id}`)).data, { participant_count: 1 })
      },
    }
  },
  async 'an invitation'() {
    const at = await world.event()
    return {
      change: { ...onEvent(at, '/invitations'), body: { email: world.newEmail() } },
      records: ['InvitationCreated', 'InvitationDue'],
      audits: 'EVENT_INVITE,MEMBER_INVITE',
      async holds(t, { status, json }) {
        t.equal(status, 201)
        const made = asInvitation(json.data)
        t.equal((await world.respond(await aPerson(api), made, { token: made.token })).status, 200, 'its link works')
      },
    }
  },
  async 'a reissue'() {
    const { made } = await invited()
    return {
      change: { who: member, method: 'POST', path: `/api/invitations/${made.wireId}/reissue` },
      records: ['InvitationDue'],
      audits: 'EVENT_ACTION',
      async holds(t, { status, json }) {
        t.equal(status, 200)
        const guest = await aPerson(api)
        t.equal((await world.respond(guest, made, { token: made.token })).status, 404, 'the old token is dead')
        const { token } = asInvitation(json.data)
        t.equal((await world.respond(guest, made, { token })).status, 200)
      },
    }
  },
  async 'an acceptance'() {
    const { at, made } = await invited()
    const guest = await aPerson(api)
    const body = { response: 'accept', token: made.token }
    return {
      change: { who: guest, method: 'POST', path: `/api/invitations/${made.wireId}/respond`, body },
      records: ['MemberJoined'],
      audits: 'EVENT_ACTION,MEMBER_INVITE',
      async undone(t) {
        t.strictSame([await world.participation(at, guest), await world.isMember(guest)], [undefined, false])
      },
      async holds(t, { status, json }) {
        t.strictSame([status, json.data.status], [200, 'accepted'])
        t.strictSame([await world.participation(at, guest), await world.isMember(guest)], ['accepted', true])
        const other = await world.respond(await aPerson(api), made, { token: made.token })
        t.equal(other.code, 'INVITATION_ALREADY_USED')
      },
    }
  },
  async 'an activation'() {
    const { at } = await invited('draft')
    await world.invite(at)
    return {
      change: onEvent(at, '/activate'),
      records: ['EventActivated', 'InvitationDue', 'InvitationDue'],
      audits: 'EVENT_ACTIVATE',
      async holds(t, { status, json }) {
        t.strictSame([status, json.data.status], [200, 'active'])
        const again = await api.call(member, 'POST', onEvent(at, '/activate').path)
        t.equal(again.status, 200)
        t.equal((await world.announced('InvitationDue', at)).length, 2, 'nobody is told twice')
      },
    }
  },
  async 'an archive'() {
    const { at, made } = await invited()
    return {
      change: onEvent(at, '/archive'),
      records: ['EventArchived'],
      audits: 'EVENT_ARCHIVE',
      async holds(t, { status, json }) {
        t.strictSame([status, json.data.status], [200, 'archived'])
        const late = await world.respond(await aPerson(api), made, { token: made.token })
        t.equal(late.code, 'EVENT_ARCHIVED')
      },
    }
  },
  async 'a highlight'() {
    const json = { title: 'Summer', media_ids: [await highlights.aMedia()] }
    return {
      change: { who: member, method: 'POST', path: highlights.HIGHLIGHTS, body: json },
      records: ['HighlightRequested'],
      audits: 'MEDIA_UPLOAD',
      async holds(t, { status, json }) {
        t.equal(status, 201)
        t.match((await highlights.get(json.data.highlight_id)).data, { status: 'processing' })
      },
    }
  },
  async 'the deletion of a highlight'() {
    const id = await highlights.aHighlight()
    return {
      change: { who: member, method: 'DELETE', path: `${highlights.HIGHLIGHTS}/${id}` },
      records: ['HighlightDeleted'],
      audits: 'MEDIA_DELETE',
      async holds(t) {
        t.equal((await highlights.get(id)).status, 404)
        t.notOk((await highlights.list()).includes(id))
      },
    }
  },
  async 'another role'() {
    const user = await aMember(api, world.orgId)
    return {
      change: onMember(user, 'PATCH', { role: 'admin' }),
      records: [],
      audits: 'ADMIN_ACTION',
      holds: async (t, { status, json }) => t.strictSame([status, json.data.role], [200, 'admin']),
    }
  },
  async 'the end of a membership'() {
    const user = await aMember(api, world.orgId)
    const { at, made } = await invited()
    await world.respond(user, made, { token: made.token })
    return {
      change: onMember(user, 'DELETE'),
      records: [],
      audits: 'ADMIN_ACTION',
      async holds(t, { status }, isDone) {
        t.equal(status, isDone ? 404 : 204, 'there is no such member any more')
        t.equal(await world.participation(at, user), undefined)
        t.equal((await api.call(user, 'GET', onEvent(at, '').path)).status, 404)
      },
    }
  },
  async 'an addition to an album'() {
    const { album, media } = await albums.filled(1)
    const added = await albums.aMedia()
    return {
      change: { who: member, method: 'POST', path: `${albums.ALBUMS}/${album}/media`, body: { media_id: added } },
      records: ['AlbumUpdated'],
      audits: 'ALBUM_ACTION',
      undone: async (t) => t.strictSame(await albums.idsOf(album), media),
      async holds(t, { status, json }) {
        t.strictSame([status, json.data.media_id], [201, added])
        t.strictSame(await albums.idsOf(album), [...media, added])
      },
    }
  },
  async 'another order of an album'() {
    const { album, media } = await albums.filled(3)
    const media_ids = media.toReversed()
    return {
      change: { who: member, method: 'POST', path: `${albums.ALBUMS}/${album}/media/reorder`, body: { media_ids } },
      records: ['AlbumUpdated'],
      audits: 'ALBUM_ACTION',
      async holds(t, { status, json }) {
        t.strictSame([status, json.data], [200, { media_ids }])
        t.strictSame(await albums.idsOf(album), media_ids)
      },
    }
  },
  async 'a comment'() {
    const path = threads.at(await world.event())
    const listed = async () => (await api.call(member, 'GET', path)).data.comments
    return {
      change: { who: member, method: 'POST', path, body: { body: `Hello @${owner.wireId}` } },
      records: ['CommentPosted', 'USER_MENTIONED'],
      audits: 'COMMENT_CREATE',
      undone: async (t) => t.strictSame(await listed(), []),
      async holds(t, { status, json }) {
        t.equal(status, 201)
        t.strictSame(await listed(), [json.data])
      },
    }
  },
  async 'an edit of a comment'() {
    const path = await threads.posted(member, threads.at(await world.event()))
    const body = `Hello @${owner.wireId}`
    const shown = async () => (await api.call(member, 'GET', path)).data
    return {
      change: { who: member, method: 'PATCH', path, body: { body } },
      records: ['USER_MENTIONED'],
      audits: 'EVENT_ACTION',
      async holds(t, { status, json }) {
        t.strictSame([status, json.data], [200, await shown()])
        t.match(json.data, { body, edited: true })
        const versions = 'select body from comment_versions where comment_id = $1'
        t.strictSame((await admin.query(versions, [uuidOf('comment', idIn(path))])).rows, [{ body: 'Hello' }])
      },
    }
  },
  async 'a reaction'() {
    const at = await world.event()
    const count = async () => (await api.call(owner, 'GET', onEvent(at, '').path)).data.reaction_counts['🔥']
    return {
      change: { ...onEvent(at, '/reactions/meta'), body: { action_id: at.wireId, emoji: '🔥' } },
      records: ['reaction_added'],
      audits: 'REACTION_CREATE',
      async holds(t, { status, json }) {
        t.strictSame([status, json.data.counts['🔥'], await count()], [201, 1, 1])
      },
    }
  },
}

/** Postgres undoes any change in the same way; these show it in what is recorded, and in what people see. */
const SEEN_UNDONE = ['a new event', 'an acceptance', 'an addition to an album', 'a comment']

interface Cut extends Case {
  key: string
  /** What was recorded while the change was held. */
  recorded: Awaited<ReturnType<Awaited<ReturnType<typeof watch>>>>
}

/** One process, killed when each of these changes is held at this place. One caller can have six of them at a time. */
async function killedAt(t: Test, place: 'done' | 'committed', names: readonly string[]): Promise<Map<string, Cut>> {
  const cases = new Map<string, Case>()
  for (const name of names) cases.set(name, (await CASES[name]?.()) as Case)
  const [whole, all] = [await watch(), [] as string[]]
  const { child, port, held, exited } = startHoldingApi(t, place, { ...settings, DATABASE_CONNECTIONS: '20' })
  const listening = await port()
  const cuts = new Map<string, Cut>()
  const answers: Promise<Answer | 'no answer'>[] = []
  for (const [name, made] of cases) {
    const [since, key] = [await watch(), newUuid()]
    const answer = send(listening, made.change, key).catch(() => 'no answer' as const)
    answers.push(answer)
    const isHeld = eventually(`${name} to be held`, () => held() > cuts.size, 120_000, 10)
    const early = await Promise.race([isHeld, answer])
    if (early !== true) throw new Error(`${name} was not held, but answered: ${JSON.stringify(early)}`)
    cuts.set(name, { ...made, key, recorded: await since() })
    all.push(...(place === 'committed' ? made.records : []))
  }
  child.kill('SIGKILL')
  t.match(await exited, [null, 'SIGKILL'])
  // Behind the rollback of each, which holds these rows; as long as the checks of the others may take.
  await admin.query(`update idempotency_keys set locked_until = now() + interval '1 hour' where state = 'running'`)
  const recorded = await whole()
  t.strictSame(recorded.types.sort(), all.sort(), 'what was committed is recorded, and nothing else')
  if (place === 'done') t.strictSame(recorded.actions, [])
  t.ok((await Promise.all(answers)).every((answer) => answer === 'no answer'))
  return cuts
}

async function happensOnce(t: Test, { change, records, audits, holds, key, recorded }: Cut): Promise<void> {
  t.strictSame([recorded.types, recorded.actions.sort().join()], [records, audits])
  const since = await watch()
  const again = await send(api.port, change, key)
  if (change.method === 'POST') t.equal(again.headers['idempotency-replayed'], 'true')
  const { types, actions } = await since()
  t.strictSame(types, [], 'the repeat records nothing')
  t.strictSame(
    actions.filter((one) => one !== 'ACCESS_DENIED'),
    [],
  )
  await holds(t, again, true)
}

async function happensLater(t: Test, { change, records, audits, undone, holds, key, recorded }: Cut): Promise<void> {
  t.strictSame(recorded, { types: [], actions: [] })
  await undone?.(t)
  if (change.method === 'POST') {
    t.match(await send(api.port, change, key), { status: 409, json: { error: { code: 'IDEMPOTENCY_IN_PROGRESS' } } })
    await admin.query('update idempotency_keys set locked_until = now() where key = $1', [key])
  }
  const since = await watch()
  const again = await send(api.port, change, key)
  const repeated = await since()
  t.strictSame([repeated.types, repeated.actions.sort().join()], [records, audits])
  await holds(t, again, false)
}

for (let names = Object.keys(CASES); names.length > 0; names = names.slice(MAX_TRANSACTIONS_PER_CALLER)) {
  const together = names.slice(0, MAX_TRANSACTIONS_PER_CALLER)
  t.test(`killed after the commit of ${together.join(', ')}`, async (t) => {
    for (const [name, cut] of await killedAt(t, 'committed', together))
      await t.test(`${name}: it happened once, and the repeat is told so`, (t) => happensOnce(t, cut))
  })
}

t.test(`killed before the commit of ${SEEN_UNDONE.join(', ')}`, async (t) => {
  const cuts = await killedAt(t, 'done', SEEN_UNDONE)
  for (const [name, cut] of cuts)
    await t.test(`${name}: nothing of it happened, and the repeat does it once`, (t) => happensLater(t, cut))
})

t.test('a relay that starts after the crash publishes each recorded event once, unchanged', async (t) => {
  const recorded = await outbox()
  const published: CloudEvent[] = []
  const bus = { era: () => 0, publish: async (_: string, event: CloudEvent) => void published.push(event) }
  const relay = startRelay({ db: database.worker, log: quietLog(), react: async () => {}, bus }, { pollMs: 10 })
  const isEmpty = async () =>
    (await admin.query('select from outbox where published_at is null limit 1')).rowCount === 0
  await eventually('an empty outbox', isEmpty)
  await relay.stop()
  t.ok(recorded.length > 0)
  const said = published.map(({ id, type, data }) => ({ id: parseId('message', id), type, payload: data }))
  const byId = (a: { id?: string | undefined }, b: { id?: string | undefined }) =>
    (a.id ?? '') < (b.id ?? '') ? -1 : 1
  t.strictSame(said.sort(byId), recorded.toSorted(byId))
  const { rows } = await admin.query(
    `select user_id from event_participants p where status = 'accepted'
      and not exists (select from memberships m where m.org_id = p.org_id and m.user_id = p.user_id)`,
  )
  t.strictSame(rows, [], 'nobody takes part without being a member')
})
