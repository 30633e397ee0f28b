import t, { type Test } from 'tap'
import { type Answer, aPerson, type Person, startApiOn, startTestApi } from '../../../support/api.ts'
import { ask } from '../../../support/ask.ts'
import type { MadeEvent } from '../../../support/events.ts'
import { inTurn } from '../../../support/in-turn.ts'
import { asInvitation, invitationWorld, type MadeInvitation } from '../../../support/invitations.ts'
import { aMember } from '../../../support/organizations.ts'

/** Two requests on one invitation or event at once, on two replicas, in either order. */
const api = await startTestApi(t)
const { database, identity, people } = api
const replica = await startApiOn(t, {
  ...{ database, identity },
  settings: { LINK_KEYS: JSON.stringify(api.config.LINK_KEYS) },
})
const world = invitationWorld(api)
const { member, owner } = people

interface Scene {
  at: MadeEvent
  /** For anyone who has its token. */
  made: MadeInvitation
  /** For `guest` as a user. */
  ofGuest: MadeInvitation
  /** A member of the organization. */
  guest: Person
  outsider: Person
}
async function stage(status: 'draft' | 'active'): Promise<Scene> {
  const at = await world.event(status)
  const guest = await aMember(api, world.orgId)
  const [made, ofGuest] = [await world.invite(at), await world.invite(at, { uuid: guest.wireId })]
  return { at, made, ofGuest, guest, outsider: await aPerson(api) }
}

type Send = (who: Person, method: string, path: string, body?: object) => Promise<Reply>
type Reply = Pick<Answer, 'status' | 'code' | 'data'>
type Act = (send: Send, scene: Scene) => Promise<Reply>

const sendTo =
  (port: number): Send =>
  async (who, method, path, body) => {
    const headers = { authorization: `Bearer ${who.token}` }
    const { status, json } = await ask(port, { method, path: `/v1${path}`, headers, ...(body && { body }) })
    return { status, code: json?.error?.code, data: json?.data }
  }
const pathOf = ({ at }: Scene) => `/api/orgs/${at.org}/events/${at.wireId}`
const respondTo = ({ wireId }: MadeInvitation) => `/api/invitations/${wireId}/respond`

const accept: Act = (send, { made, guest }) =>
  send(guest, 'POST', respondTo(made), { response: 'accept', token: made.token })
const decline: Act = (send, { made, guest }) =>
  send(guest, 'POST', respondTo(made), { response: 'decline', token: made.token })
const acceptAsOutsider: Act = (send, { made, outsider }) =>
  send(outsider, 'POST', respondTo(made), { response: 'accept', token: made.token })
const acceptAsUser: Act = (send, { ofGuest, guest }) => send(guest, 'POST', respondTo(ofGuest), { response: 'accept' })
const reissue: Act = (send, { made }) => send(member, 'POST', `/api/invitations/${made.wireId}/reissue`)
const reissueToUser: Act = (send, { ofGuest }) => send(member, 'POST', `/api/invitations/${ofGuest.wireId}/reissue`)
const invite: Act = (send, scene) => send(member, 'POST', `${pathOf(scene)}/invitations`, { email: world.newEmail() })
const activate: Act = (send, scene) => send(member, 'POST', `${pathOf(scene)}/activate`)
const archive: Act = (send, scene) => send(member, 'POST', `${pathOf(scene)}/archive`)
const change: Act = (send, scene) => send(member, 'PUT', pathOf(scene), { title: 'Changed' })
const leave: Act = (send, { guest }) => send(guest, 'DELETE', `/api/organizations/${api.org}/members/me`)
const remove: Act = (send, { guest }) => send(owner, 'DELETE', `/api/organizations/${api.org}/members/${guest.id}`)

type Outcome = [first: string | number, second: string | number]
interface Pair {
  name: string
  status: 'draft' | 'active'
  /** What decides who is first. */
  by: 'event' | 'invitation' | 'invitation of the guest' | 'membership'
  acts: [one: Act, other: Act]
  /** The answers to `one` and `other` where `one` is first, and where `other` is. */
  outcomes: [Outcome, Outcome]
  holds(t: Test, scene: Scene, replies: [Reply, Reply], isReverse: boolean): Promise<unknown>
}

const lockOf = ({ by }: Pair, { at, made, ofGuest, guest }: Scene) => {
  const locks = {
    event: { text: 'select from events where id = $1 for update', values: [at.id] },
    invitation: { text: 'select from invitations where id = $1 for update', values: [made.id] },
    'invitation of the guest': { text: 'select from invitations where id = $1 for update', values: [ofGuest.id] },
    membership: {
      text: 'select from memberships where org_id = $1 and user_id = $2 for update',
      values: [world.orgId, guest.id],
    },
  }
  return locks[by]
}

const stateOf = async ({ at, made }: Scene) => {
  const { rows } = await database.admin.query('select status from events where id = $1', [at.id])
  return `${rows[0].status}, ${(await world.row(made)).status}`
}
const standing = async ({ at, guest }: Scene) => [await world.isMember(guest), await world.participation(at, guest)]
const told = async ({ at }: Scene, wireId: string) =>
  (await world.announced('InvitationDue', at))
    .filter(({ invitation_id: id }) => id === wireId)
    .map(({ generation }) => generation)

const PAIRS: Pair[] = [
  {
    name: 'a response and an archive',
    ...{ status: 'active', by: 'event', acts: [accept, archive] },
    outcomes: [
      [200, 200],
      ['EVENT_ARCHIVED', 200],
    ],
    holds: async (t, scene, [{ status }]) => {
      t.equal(await stateOf(scene), `archived, ${status === 200 ? 'accepted' : 'pending'}`)
      t.strictSame(await standing(scene), [true, status === 200 ? 'accepted' : 'invited'])
    },
  },
  {
    name: 'a reissue and an archive',
    ...{ status: 'active', by: 'event', acts: [reissue, archive] },
    outcomes: [
      [200, 200],
      ['EVENT_ARCHIVED', 200],
    ],
    holds: async (t, { made }, [{ status }]) => t.equal((await world.row(made)).generation, status === 200 ? 2 : 1),
  },
  {
    name: 'an invitation and an archive',
    ...{ status: 'active', by: 'event', acts: [invite, archive] },
    outcomes: [
      [201, 200],
      ['EVENT_ARCHIVED', 200],
    ],
    holds: async (t, { at }, [{ status }]) =>
      t.equal((await world.announced('InvitationCreated', at)).length, status === 201 ? 3 : 2),
  },
  {
    name: 'a change and an archive',
    ...{ status: 'active', by: 'event', acts: [change, archive] },
    outcomes: [
      [200, 200],
      ['EVENT_ARCHIVED', 200],
    ],
    holds: async (t, scene, [{ status }, { data }]) =>
      t.equal(data.title, status === 200 ? 'Changed' : 'Class reunion', await stateOf(scene)),
  },
  {
    name: 'two activations',
    ...{ status: 'draft', by: 'event', acts: [activate, activate] },
    outcomes: [
      [200, 200],
      [200, 200],
    ],
    holds: async (t, scene) => {
      t.equal((await world.announced('EventActivated', scene.at)).length, 1)
      for (const { wireId } of [scene.made, scene.ofGuest]) t.strictSame(await told(scene, wireId), [1])
    },
  },
  {
    name: 'an invitation and the activation: the invitee is told once',
    ...{ status: 'draft', by: 'event', acts: [invite, activate] },
    outcomes: [
      [201, 200],
      [201, 200],
    ],
    holds: async (t, scene, [{ data }]) => t.strictSame(await told(scene, data.invitation_id), [1]),
  },
  {
    name: 'a reissue and the activation: the invitee is told of the link that works',
    ...{ status: 'draft', by: 'event', acts: [reissue, activate] },
    outcomes: [
      [200, 200],
      [200, 200],
    ],
    holds: async (t, scene, [{ data }]) => {
      t.equal((await told(scene, scene.made.wireId)).at(-1), 2)
      t.equal((await acceptAsOutsider(sendTo(api.port), { ...scene, made: asInvitation(data) })).status, 200)
    },
  },
  {
    name: 'a response and the activation',
    ...{ status: 'draft', by: 'event', acts: [acceptAsUser, activate] },
    outcomes: [
      ['NOT_FOUND', 200],
      [200, 200],
    ],
    holds: async (t, scene, [{ status }]) =>
      t.strictSame(await standing(scene), [true, status === 200 ? 'accepted' : 'invited']),
  },
  {
    name: 'two responses',
    ...{ status: 'active', by: 'invitation', acts: [accept, acceptAsOutsider] },
    outcomes: [
      [200, 'INVITATION_ALREADY_USED'],
      ['INVITATION_ALREADY_USED', 200],
    ],
    holds: async (t, scene, [{ status }]) => {
      t.equal(await world.isMember(scene.outsider), status !== 200)
      t.equal((await world.row(scene.made)).responded_by, (status === 200 ? scene.guest : scene.outsider).id)
    },
  },
  {
    name: 'an acceptance and a refusal with the same token',
    ...{ status: 'active', by: 'invitation', acts: [acceptAsOutsider, decline] },
    outcomes: [
      [200, 'INVITATION_ALREADY_USED'],
      ['INVITATION_ALREADY_USED', 200],
    ],
    holds: async (t, scene, [{ status }]) =>
      t.equal(await stateOf(scene), `active, ${status === 200 ? 'accepted' : 'declined'}`),
  },
  {
    name: 'a response and a reissue',
    ...{ status: 'active', by: 'invitation', acts: [acceptAsOutsider, reissue] },
    outcomes: [
      [200, 'INVALID_STATE_TRANSITION'],
      ['NOT_FOUND', 200],
    ],
    holds: async (t, { outsider }, [{ status }]) => t.equal(await world.isMember(outsider), status === 200),
  },
  {
    name: 'two reissues: the link of the second works',
    ...{ status: 'active', by: 'invitation', acts: [reissue, reissue] },
    outcomes: [
      [200, 200],
      [200, 200],
    ],
    holds: async (t, scene, replies, isReverse) => {
      t.equal((await world.row(scene.made)).generation, 3)
      const answers: number[] = []
      for (const { data } of replies) {
        answers.push((await acceptAsOutsider(sendTo(replica.port), { ...scene, made: asInvitation(data) })).status)
      }
      t.strictSame(answers, isReverse ? [200, 404] : [404, 200])
      t.strictSame(await told(scene, scene.made.wireId), [1, 2, 3])
    },
  },
  ...[leave, remove].map(
    (end): Pair => ({
      name: `an acceptance and ${end === leave ? 'leaving' : 'a removal'}`,
      ...{ status: 'active', by: 'membership', acts: [accept, end] },
      outcomes: [
        [200, 204],
        [200, 204],
      ],
      // Who accepts after the end of the membership joins anew.
      holds: async (t, scene, _, isReverse) =>
        t.strictSame(await standing(scene), isReverse ? [true, 'accepted'] : [false, undefined]),
    }),
  ),
  ...(['invitation of the guest', 'membership'] as const).map(
    (by): Pair => ({
      name: `an acceptance by the invited user and their removal, queued for the ${by}`,
      ...{ status: 'active', by, acts: [acceptAsUser, remove] },
      outcomes: [
        [200, 204],
        ['NOT_FOUND', 204],
      ],
      // The removal takes effect in either order.
      holds: async (t, scene, [{ status }]) => {
        t.strictSame(await standing(scene), [false, undefined])
        const { status: state, generation } = await world.row(scene.ofGuest)
        t.strictSame([state, generation], status === 200 ? ['accepted', 1] : ['revoked', 2])
      },
    }),
  ),
  {
    name: 'an acceptance by the invited user and leaving',
    ...{ status: 'active', by: 'membership', acts: [acceptAsUser, leave] },
    outcomes: [
      [200, 204],
      [200, 204],
    ],
    // Who leaves by their own will may come back with the same invitation.
    holds: async (t, scene, _, isReverse) =>
      t.strictSame(await standing(scene), isReverse ? [true, 'accepted'] : [false, undefined]),
  },
  {
    name: 'a reissue and the removal of the invitee',
    ...{ status: 'active', by: 'invitation of the guest', acts: [reissueToUser, remove] },
    outcomes: [
      [200, 204],
      ['INVALID_STATE_TRANSITION', 204],
    ],
    holds: async (t, scene, [{ status, data }]) => {
      t.match(await world.row(scene.ofGuest), { status: 'revoked', generation: status === 200 ? 3 : 2 })
      t.strictSame(await told(scene, scene.ofGuest.wireId), status === 200 ? [1, 2] : [1])
      const { token } = status === 200 ? asInvitation(data) : scene.ofGuest
      const late = await acceptAsOutsider(sendTo(api.port), { ...scene, made: { ...scene.ofGuest, token } })
      t.equal(late.status, 404, 'no link that was ever sent works')
    },
  },
  {
    name: 'the activation and the removal of an invitee',
    ...{ status: 'draft', by: 'invitation of the guest', acts: [activate, remove] },
    outcomes: [
      [200, 204],
      [200, 204],
    ],
    holds: async (t, scene, _, isReverse) => {
      t.equal((await world.row(scene.ofGuest)).status, 'revoked')
      t.strictSame(await told(scene, scene.ofGuest.wireId), isReverse ? [] : [1])
    },
  },
  {
    name: 'a refusal and leaving',
    ...{ status: 'active', by: 'membership', acts: [decline, leave] },
    outcomes: [
      [200, 204],
      [200, 204],
    ],
    holds: async (t, scene) => t.strictSame(await standing(scene), [false, undefined]),
  },
]

for (const pair of PAIRS) {
  for (const isReverse of [false, true]) {
    t.test(`at once: ${pair.name}${isReverse ? ', in reverse' : ''}`, async (t) => {
      const scene = await stage(pair.status)
      const [one, other] = pair.acts
      const run = [() => one(sendTo(api.port), scene), () => other(sendTo(replica.port), scene)]
      const answers = await inTurn(database, lockOf(pair, scene), ...(isReverse ? run.reverse() : run))
      const replies = (isReverse ? answers.reverse() : answers) as [Reply, Reply]
      t.strictSame(
        replies.map(({ status, code }) => code ?? status),
        pair.outcomes[isReverse ? 1 : 0],
      )
      await pair.holds(t, scene, replies, isReverse)
    })
  }
}

t.test('a response with the token that waits while the invitation expires is too late', async (t) => {
  const scene = await stage('active')
  const expire = {
    text: `update invitations set token_expires_at = date_trunc('second', now()) where id = $1`,
    values: [scene.made.id],
  }
  const [late] = await inTurn(database, expire, () => acceptAsOutsider(sendTo(api.port), scene))
  // The token names its expiry: with another one it is no token of the invitation.
  t.strictSame([late?.status, late?.code], [404, 'NOT_FOUND'])
  t.strictSame(await standing(scene), [true, 'invited'])
})

t.test('everything at once, on both replicas: no deadlock, and nobody is told or takes part wrongly', async (t) => {
  const scenes = await Promise.all(Array.from({ length: 4 }, () => stage('draft')))
  for (const { at, guest } of scenes) {
    // A second invitation of the same person: the removal and the activation lock both.
    const email = world.newEmail()
    await database.admin.query('update users set email = $2 where id = $1', [guest.id, email])
    await world.invite(at, { email })
  }
  const responses = [accept, acceptAsUser, acceptAsOutsider, decline]
  const acts = [...responses, reissue, reissueToUser, invite, change, leave, remove, activate]
  const sends = [sendTo(api.port), sendTo(replica.port)]
  const all = scenes.flatMap((scene) => [...acts, ...acts].map((act, n) => () => act(sends[n % 2] as Send, scene)))
  const archives = scenes.map((scene) => () => archive(sends[0] as Send, scene))
  // Any order that mixes them: no divisor of their number is in 37.
  const mixed = all.map((_, n) => all[(n * 37) % all.length] as (typeof all)[number])
  const answers = await Promise.all([...mixed.splice(0, 60), ...archives, ...mixed].map((act) => act()))
  // A busy machine may let one wait too long for a lock, which is 503.
  const failed = answers.filter(({ status }) => status >= 500 && status !== 503)
  t.strictSame(failed, [])
  t.notMatch(JSON.stringify([api.logged, replica.logged]), /40P01|deadlock/)
  const none = async (what: string, query: string) => {
    const { rows } = await database.admin.query(query)
    t.strictSame(rows, [], what)
  }
  await none(
    'nobody takes part without being a member',
    `select * from event_participants p where status = 'accepted'
       and not exists (select from memberships m where m.org_id = p.org_id and m.user_id = p.user_id)`,
  )
  await none(
    'no revoked invitation was answered',
    `select id from invitations where status = 'revoked' and (responded_by is not null or generation = 1)`,
  )
  await none(
    'nobody is told of a link twice',
    `select payload ->> 'invitation_id' from outbox where type = 'InvitationDue'
       group by payload ->> 'invitation_id', payload ->> 'generation' having count(*) > 1`,
  )
  await none(
    'everybody is told of an active event',
    `select i.id from invitations i join events e on e.id = i.event_id
       where e.status = 'active' and i.status = 'pending' and i.told_generation is distinct from i.generation
         and not (i.told_generation = 0 and exists (select from invitations o join users u on u.id = o.user_id
           where o.event_id = i.event_id and u.email = i.email and o.told_generation > 0))`,
  )
  await none(
    'each version of an invitation and of an event is announced once',
    `select aggregate_id, aggregate_version from outbox where type <> 'MemberJoined'
       group by 1, 2 having count(*) > 1`,
  )
})
