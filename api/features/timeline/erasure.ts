import { type PersonalPart, step } from '../../personal/part.ts'
import { eraseItems } from './erasure-queries.ts'

export const timelinePart: PersonalPart = {
  personal: {
    timeline_items: {
      holds: 'what members did, by id; names are shown as they are now',
      kept: 'as long as the organization',
      columns: {
        actor_id: { person: 'gone' },
        ref_id: { harmless: 'the id of a resource, and of a new member; the row is deleted where it is the person’s' },
        summary: { erase: 'row deleted', canary: 'text' },
      },
    },
    feed_versions: { holds: 'how often the feed of an organization changed', kept: 'always', columns: {} },
  },
  erase: [
    step({
      name: 'timeline.items',
      phase: 'texts',
      does: 'what the person did is deleted from all timelines and feeds',
      run: async ({ db }, person) => ({ timeline_items: await eraseItems(db, person) }),
    }),
  ],
}
