import { type PersonalPart, step } from '../personal/part.ts'
import { eraseCounters } from './erasure-queries.ts'

/** The counters of requests that all replicas share. */
export const limitsPart: PersonalPart = {
  personal: {
    rate_limits: {
      holds: 'how many requests of a kind a user or an address made; keys are hashes',
      kept: 'until the window ends, at most a day',
      columns: { key: { harmless: 'a hash; those of the user are deleted all the same' } },
    },
  },
  erase: [
    step({
      name: 'limits.counters',
      phase: 'traces',
      does: 'the counters of the person are deleted; those of addresses end within a day',
      run: ({ db }, { userId }) => db.inTransaction({}, async (tx) => ({ counters: await eraseCounters(tx, userId) })),
    }),
  ],
}
