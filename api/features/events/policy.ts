import type { Uuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import type { EventStatus } from '../../db/schema/events.ts'
import { member, organizationAdmin } from '../../permissions/facts.ts'
import { allOf, anyOf, fact, on, onOrganization } from '../../permissions/rule.ts'

type Owned = { ownerId: Uuid }
type Visible = Owned & { status: EventStatus }

export const eventOwner = fact<Owned>('event_owner', 'the owner of the event', (a, row) => a.userId === row.ownerId)

const published = fact<Visible>('event_not_draft', 'once it is no draft', (_, row) => row.status !== 'draft')

export const mayManageEvent = anyOf<Owned>(eventOwner, organizationAdmin)

/** A draft is seen by its owner and the administrators alone. */
export const mayReadEvent = anyOf<Visible>(eventOwner, organizationAdmin, allOf<Visible>(member, published))

export const eventActions = {
  create: onOrganization('event.create', 'create an event', member),
  list: onOrganization('event.list', 'list the events of an organization', member),
  listDrafts: onOrganization('event.list_drafts', 'see the drafts of others in lists', organizationAdmin),
  read: on('event', 'event.read', 'see an event and its participants', mayReadEvent),
  update: on('event', 'event.update', 'change an event', mayManageEvent),
  activate: on('event', 'event.activate', 'activate an event', mayManageEvent),
  archive: on('event', 'event.archive', 'archive an event', mayManageEvent),
  delete: on('event', 'event.delete', 'delete a draft of an event', mayManageEvent),
} as const

/** Nothing of an archived event changes. Call it on the row that the transaction locked. */
export function refuseArchived(event: { status: EventStatus }): void {
  if (event.status === 'archived') throw new Problem('EVENT_ARCHIVED', 'The event is archived and read-only')
}
