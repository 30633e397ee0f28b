import { aggregateOf } from '../../lib/contract/events.ts'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { IsTheirs } from '../../lib/runtime/event-bus/event-bus.ts'
import { formsOf } from '../personal/forms.ts'
import type { EraseDeps, Erased, ErasedPerson, PersonalPart } from '../personal/part.ts'
import { resourcesOf } from '../personal/queries.ts'
import { eraseEvents, isPublishing, NAMES_NO_ONE } from './erasure-queries.ts'

/** The events, in the database and in the stream. */
export const outboxPart: PersonalPart = {
  personal: {
    outbox: {
      holds: 'events until consumers have them',
      kept: '7 days after they were published; in the stream 7 days',
      columns: {
        area: { harmless: 'a closed list' },
        aggregate_id: { harmless: 'the id of a resource; of MemberJoined that of the user, whose row is deleted' },
        type: { harmless: 'a closed list' },
        payload: { erase: 'row deleted, and the message in the stream', canary: 'text' },
        traceparent: { harmless: 'random' },
        last_error: { harmless: 'what failed, without values' },
      },
    },
  },
  erase: [
    {
      name: 'events.messages',
      phase: 'traces',
      does: 'events that name the person or tell of what was the person’s are deleted, in the database and in the stream, read or not',
      run: eraseMessages,
    },
  ],
}

/** The stream comes last: nothing that was about to be published may follow. */
async function eraseMessages({ db, bus, signal }: EraseDeps, person: ErasedPerson): Promise<Erased> {
  const events = await eraseEvents(db, person)
  if (await db.read({}, (tx) => isPublishing(tx, person))) return { counts: { events }, isWaiting: true }
  const theirs = await db.read({}, (tx) => resourcesOf(tx, person.erasureId))
  const messages = await bus.erase(isOf(person.userId, theirs), signal)
  return { counts: { events, messages } }
}

/**
 * As in the database: what names the person, or tells of what was the person's. What others say about an event that was
 * passed on, or in reply to the person, is theirs. So is the notice of a purge, which the next owner of the event gets.
 */
export function isOf(userId: Uuid, theirs: ReadonlySet<Uuid>): IsTheirs {
  const forms = formsOf(userId)
  return ({ subject, text }) =>
    (forms.some((form) => text.includes(form)) || theirs.has(aggregateOf(subject) ?? '')) &&
    !NAMES_NO_ONE.some((type) => subject.endsWith(`.${type}`))
}
