import { type PersonalPart, step } from '../../personal/part.ts'
import { eraseParked } from './erasure-queries.ts'

/** What the consumers of events have handled, and what they could not handle. */
export const consumersPart: PersonalPart = {
  personal: {
    inbox: {
      holds: 'which events a consumer has handled',
      kept: 'longer than the stream keeps events',
      columns: { consumer: { harmless: 'a name' }, message_id: { harmless: 'the id of an event' } },
    },
    parked_events: {
      holds: 'events that a consumer could not handle',
      kept: '30 days',
      columns: {
        consumer: { harmless: 'a name' },
        message_id: { harmless: 'the id of an event' },
        subject: { harmless: 'ids of the event; the row is deleted where they are the person’s' },
        aggregate_id: { harmless: 'the id of a resource; the row is deleted where it is the person’s' },
        reason: { harmless: 'what failed, without values' },
        event: { erase: 'row deleted', canary: 'text' },
      },
    },
    suspected_events: {
      holds: 'events that may have killed a process',
      kept: 'until they are handled',
      columns: { consumer: { harmless: 'a name' }, message_id: { harmless: 'the id of an event' } },
    },
    consumer_positions: {
      holds: 'up to where in the stream a consumer has handled events',
      kept: 'always',
      columns: { consumer: { harmless: 'a name' }, history: { harmless: 'of the database' } },
    },
    event_streams: { holds: 'when the stream was made', kept: 'always', columns: { name: { harmless: 'a name' } } },
  },
  erase: [
    step({
      name: 'events.parked',
      phase: 'traces',
      does: 'events of the person that a consumer could not handle are deleted',
      run: ({ db }, person) => db.inTransaction({}, async (tx) => ({ parked: await eraseParked(tx, person) })),
    }),
  ],
}
