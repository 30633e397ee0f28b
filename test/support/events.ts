import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import type { Person, TestApi } from './api.ts'

export interface MadeEvent {
  id: Uuid
  wireId: string
  /** Of the organization, as on the wire. */
  org: string
}

/** An event as its creation leaves it: with its owner as a participant. */
export async function anEvent(
  { database }: Pick<TestApi, 'database'>,
  o: { org: string; orgId: Uuid; owner: Person; status?: 'draft' | 'active' | 'archived'; title?: string },
): Promise<MadeEvent> {
  const { orgId, owner, status = 'active', title = 'Class reunion' } = o
  const id = newUuid()
  await database.admin.query(
    `insert into events (id, org_id, owner_id, title, start_at, status) values ($1, $2, $3, $4, now(), $5)`,
    [id, orgId, owner.id, title, status],
  )
  await takePart({ database }, { event: { id }, orgId, who: owner })
  return { id, wireId: formatId('event', id), org: o.org }
}

/** As if the person had accepted an invitation: who is no member becomes a guest. */
export async function takePart(
  { database }: Pick<TestApi, 'database'>,
  o: { event: Pick<MadeEvent, 'id'>; orgId: Uuid; who: Person },
): Promise<void> {
  await database.admin.query(
    `insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, 'accepted', now())`,
    [o.event.id, o.who.id, o.orgId],
  )
}
