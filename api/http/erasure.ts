import { type PersonalPart, step } from '../personal/part.ts'
import { eraseAnswers } from './erasure-queries.ts'

/** The answers that are stored for repeated requests. */
export const httpPart: PersonalPart = {
  personal: {
    idempotency_keys: {
      holds: 'answers to requests with an Idempotency-Key, for their repeats',
      kept: '24 hours',
      columns: {
        user_id: { person: 'gone' },
        method: { harmless: 'POST' },
        route: { harmless: 'the pattern of a path' },
        key: { erase: 'row deleted', canary: 'token' },
        body_hash: { erase: 'row deleted', canary: 'token' },
        holder: { harmless: 'random: an attempt' },
        response: { erase: 'row deleted, also of others who name the user', canary: 'id' },
      },
    },
  },
  erase: [
    step({
      name: 'requests.answers',
      phase: 'traces',
      does: 'stored answers of the person, and those of others that name the person, are deleted',
      run: async ({ db }, { userId }) => ({ answers: await eraseAnswers(db, userId) }),
    }),
  ],
}
