import { formatId, newUuid, parseId } from '../../../../lib/contract/ids.ts'
import type { ListSeeds, Seeds, Side } from './seed.ts'

/** An item about the organization's member, as the consumer writes one; resolves with its id. */
async function anItem({ api, org, person }: Side): Promise<string> {
  const id = newUuid()
  const values = [id, parseId('organization', org), person.id]
  const row = `insert into timeline_items (id, org_id, type, actor_id, ref_type, ref_id, at, summary)
    values ($1, $2, 'album_updated', $3, 'user', $3, date_trunc('milliseconds', clock_timestamp()), 'An item')`
  await api.database.admin.query(row, values)
  await api.database.admin.query('select bump_feed($1)', [values[1]])
  return formatId('timelineItem', id)
}

export const timelineSeeds: Seeds = {
  followFeed: ({ person }) => ({ as: person }),
  getFeed: ({ person }) => ({ as: person }),
  getUserTimeline: ({ person }) => ({ as: person, params: { user_id: person.wireId } }),
  getOrganizationTimeline: ({ person, org }) => ({ as: person, params: { org_id: org } }),
}

export const timelineLists: ListSeeds = {
  getFeed: { add: anItem },
  getUserTimeline: { add: anItem },
  getOrganizationTimeline: { add: anItem },
}
