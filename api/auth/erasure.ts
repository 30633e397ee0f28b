import { type PersonalPart, step } from '../personal/part.ts'
import { anonymize, eraseSessions } from './erasure-queries.ts'

/** The accounts and their sign-ins. */
export const authPart: PersonalPart = {
  personal: {
    users: {
      holds: 'the account: what the identity provider says about a user',
      kept: 'as long as the account',
      columns: {
        issuer: { harmless: 'the identity provider of all users; `erased` after an erasure' },
        subject: { erase: 'replaced by a random value', canary: 'subject' },
        email: { erase: 'removed', canary: 'email' },
        display_name: { erase: 'removed', canary: 'text' },
        locale: { erase: 'removed', canary: 'token' },
        phone_number: { erase: 'removed', canary: 'phone' },
      },
    },
    user_storage: {
      holds: 'how many bytes a user stores',
      kept: 'as long as the account',
      columns: { user_id: { person: { stays: 'with zeros' } } },
    },
    sessions: {
      holds: 'sign-ins',
      kept: '400 days after the last token',
      columns: {
        user_id: { person: 'gone' },
        sid: { erase: 'row deleted', canary: 'token' },
      },
    },
    jwks_cache: {
      holds: 'public keys of the identity provider',
      kept: 'until the next ones',
      columns: { issuer: { harmless: 'an address' }, jwks: { harmless: 'public keys' } },
    },
  },
  erase: [
    step({
      name: 'auth.sessions',
      phase: 'access',
      does: 'what is recorded of sign-ins is deleted; tokens are refused since the request',
      run: ({ db }, { userId }) => db.inTransaction({}, async (tx) => ({ sessions: await eraseSessions(tx, userId) })),
    }),
    step({
      name: 'auth.account',
      phase: 'identity',
      does: 'the account keeps its id alone: an anonymous member',
      // Also the sign-ins that an API of an earlier version recorded meanwhile.
      run: ({ db }, { userId }) =>
        db.inTransaction({}, async (tx) => {
          await eraseSessions(tx, userId)
          return { accounts: await anonymize(tx, userId) }
        }),
    }),
  ],
}
