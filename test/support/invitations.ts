import type { Uuid } from '../../lib/contract/ids.ts'
import { type Person, type TestApi, uuidOf } from './api.ts'
import { anEvent, type MadeEvent } from './events.ts'

/** An invitation as its creation or its reissue shows it. */
export interface MadeInvitation {
  id: Uuid
  wireId: string
  slug: string
  token: string
  url: string
  qrUrl: string
}

export const tokenOf = (url: string) => new URL(url).hash.replace(/^#t=/, '')

// biome-ignore lint/suspicious/noExplicitAny: answers differ by operation; a test reads a field and fails if it is missing
export const asInvitation = (data: any): MadeInvitation => ({
  id: uuidOf('invitation', data.invitation_id),
  wireId: data.invitation_id,
  slug: data.slug,
  token: tokenOf(data.invite_url),
  url: data.invite_url,
  qrUrl: data.qr_png_url,
})

/** Events of the first organization and invitations to them. */
export function invitationWorld(api: TestApi) {
  const { admin } = api.database
  const orgId = uuidOf('organization', api.org)
  let addresses = 0
  const newEmail = () => `guest-${++addresses}@example.org`

  const event = (status: 'draft' | 'active' | 'archived' = 'active', owner = api.people.member) =>
    anEvent(api, { org: api.org, orgId, owner, status })
  const pathOfList = (at: MadeEvent) => `/api/orgs/${at.org}/events/${at.wireId}/invitations`
  const tryInvite = (
    at: MadeEvent,
    json: unknown = { email: newEmail() },
    as: Person | undefined = api.people.member,
  ) => api.call(as, 'POST', pathOfList(at), { json })

  return {
    orgId,
    event,
    newEmail,
    tryInvite,
    list: (at: MadeEvent, as: Person = api.people.member, query = '') =>
      api.call(as, 'GET', `${pathOfList(at)}${query}`),
    async invite(at: MadeEvent, json?: unknown, as?: Person) {
      const answer = await tryInvite(at, json, as)
      if (answer.status !== 201) throw new Error(`not invited: ${answer.status} ${JSON.stringify(answer.body)}`)
      return asInvitation(answer.data)
    },
    respond: (as: Person, { wireId }: Pick<MadeInvitation, 'wireId'>, json: object) =>
      api.call(as, 'POST', `/api/invitations/${wireId}/respond`, { json: { response: 'accept', ...json } }),
    reissue: (as: Person, { wireId }: Pick<MadeInvitation, 'wireId'>) =>
      api.call(as, 'POST', `/api/invitations/${wireId}/reissue`),
    /** As if an hour had passed. */
    async expire({ id }: Pick<MadeInvitation, 'id'>) {
      await admin.query(`update invitations set token_expires_at = date_trunc('second', now()) where id = $1`, [id])
    },
    setStatus: (at: MadeEvent, status: string) =>
      admin.query('update events set status = $2 where id = $1', [at.id, status]),
    async row({ id }: Pick<MadeInvitation, 'id'>) {
      const { rows } = await admin.query('select * from invitations where id = $1', [id])
      return rows[0]
    },
    async participation(at: MadeEvent, { id }: Person): Promise<string | undefined> {
      const { rows } = await admin.query('select status from event_participants where event_id = $1 and user_id = $2', [
        at.id,
        id,
      ])
      return rows[0]?.status
    },
    async isMember({ id }: Person): Promise<boolean> {
      const { rowCount } = await admin.query('select from memberships where org_id = $1 and user_id = $2', [orgId, id])
      return rowCount === 1
    },
    /** The payloads of this type about the event, in order. */
    async announced(type: string, at: MadeEvent) {
      const { rows } = await admin.query(
        `select payload from outbox where type = $1 and payload->>'event_id' = $2 order by created_at, id`,
        [type, at.wireId],
      )
      return rows.map(({ payload }) => payload)
    },
  }
}
