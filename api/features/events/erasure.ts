import { type EraseDeps, type Erased, type ErasedPerson, type PersonalPart, step } from '../../personal/part.ts'
import { eraseParticipation, nextEvents, passEvent } from './erasure-queries.ts'

export const eventsPart: PersonalPart = {
  personal: {
    events: {
      holds: 'events',
      kept: 'until they are deleted',
      columns: {
        lease_token: { harmless: 'random' },
        owner_id: { person: { stays: 'in an organization without any other member, who could become the owner' } },
        purge_notice_to: { person: 'gone' },
        title: { erase: 'replaced in events of the person', canary: 'text' },
        description: { erase: 'removed in events of the person', canary: 'text' },
        location_name: { erase: 'removed in events of the person, with the coordinates', canary: 'text' },
      },
    },
    event_participants: {
      holds: 'who takes part in events',
      kept: 'as long as the event and the participation',
      columns: { user_id: { person: 'gone' } },
    },
  },
  erase: [
    step({
      name: 'events.participation',
      // At once: a guest whose erasure waits under a hold would keep the name before the others. Memberships have ended before.
      phase: 'access',
      does: 'the person takes part in no event any more, also as a guest',
      run: ({ db }, { userId }) =>
        db.inTransaction({}, async (tx) => ({ participations: await eraseParticipation(tx, userId) })),
    }),
    {
      name: 'events.ownership',
      phase: 'texts',
      does: 'events of the person get another owner, the longest-standing owner of the organization, and a neutral title; drafts are deleted',
      run: passEvents,
    },
  ],
}

async function passEvents({ db, signal }: EraseDeps, person: ErasedPerson): Promise<Erased> {
  const counts = { passed: 0, deleted: 0, gone: 0 }
  for (const id of await db.inTransaction({}, (tx) => nextEvents(tx, person))) {
    signal?.throwIfAborted()
    counts[await db.inTransaction({}, (tx) => passEvent(tx, id, person.userId))] += 1
  }
  return { counts: { events_passed_on: counts.passed, drafts_deleted: counts.deleted } }
}
