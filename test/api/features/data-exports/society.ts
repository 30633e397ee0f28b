import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { downloadPrefix } from '../../../../lib/contract/object-keys.ts'
import { madeOnce, type Part } from '../../../support/society.ts'
import { eventsOf } from '../events/society.ts'

/** Older ones are not listed. */
const AT = new Date(Date.now() - 3_600_000).toISOString()
const FAR = '2099-01-01T00:00:00.000Z'

const exportsOf = madeOnce(({ draw, users, insert }) => {
  const exports = users.flatMap((owner) => draw.times(0, 2, () => ({ id: newUuid(), owner })))
  for (const { id, owner } of exports) {
    const key = `${downloadPrefix(owner.id, id)}1-1/keepsake.zip`
    insert('data_exports', {
      ...{ id, user_id: owner.id, state: 'completed', created_at: AT, completed_at: AT, expires_at: FAR },
      ...{ event_id: null, org_id: null, event_title: null },
    })
    insert('data_export_parts', {
      export_id: id,
      number: 1,
      user_id: owner.id,
      state: 'made',
      bytes: 9,
      done_bytes: 9,
      key,
    })
  }
  return exports
})

/** Of an event. The person who asked for it sees it, also after the event is gone. */
const eventExportsOf = madeOnce((society) => {
  const { draw, users, insert } = society
  const { events } = eventsOf(society)
  if (events.length === 0) return []
  const exports = users.flatMap((owner) =>
    draw.times(0, 2, () => ({ id: newUuid(), owner, event: draw.one(...events) })),
  )
  for (const { id, owner, event } of exports) {
    insert('data_exports', {
      ...{ id, user_id: owner.id, state: 'completed', created_at: AT, completed_at: AT, expires_at: FAR },
      ...{ event_id: event.id, org_id: event.organization.id, event_title: event.title },
    })
  }
  return exports
})

/** Each user sees their own exports, with links to their own files. */
export const part: Part = {
  of: (society) => void [exportsOf(society), eventExportsOf(society)],
  ask(society, who) {
    const shown = ({ id }: { id: string }) => ({
      ...{ export_id: formatId('export', id), status: 'completed', created_at: AT, completed_at: AT, expires_at: FAR },
      parts: [
        { number: 1, name: 'keepsake.zip', bytes: 9, download_url: `${downloadPrefix(who.id, id)}1-1/keepsake.zip` },
      ],
    })
    const all = exportsOf(society)
    const mine = all.filter(({ owner }) => owner === who).toSorted((a, b) => (a.id < b.id ? 1 : -1))
    const ofEvent = ({ id, event }: ReturnType<typeof eventExportsOf>[number]) => ({
      ...{ export_id: formatId('export', id), status: 'completed', created_at: AT, completed_at: AT, expires_at: FAR },
      ...{
        event_id: event.wireId,
        org_id: event.organization.wireId,
        event_title: event.title,
        parts: [],
        error: null,
      },
    })
    const ofEvents = eventExportsOf(society)
    const mineOfEvents = ofEvents.filter(({ owner }) => owner === who).toSorted((a, b) => (a.id < b.id ? 1 : -1))
    return [
      { route: 'listEventExports', want: { exports: mineOfEvents.map(ofEvent) } },
      ...ofEvents.map((one) => ({
        ...{ route: 'getEventExport', params: { export_id: formatId('export', one.id) } },
        want: one.owner === who ? ofEvent(one) : undefined,
      })),
      { route: 'listDataExports', want: { exports: mine.map(shown) } },
      ...all.map((one) => ({
        ...{ route: 'getDataExport', params: { export_id: formatId('export', one.id) } },
        want: one.owner === who ? shown(one) : undefined,
      })),
    ]
  },
}
