import { type PersonalPart, step } from '../personal/part.ts'
import { anonymize } from './erasure-queries.ts'
import { eraseSessions } from './session-queries.ts'

/** The accounts and their sign-ins. */
export const authPart: PersonalPart = {
  personal: {
    member_names: {
      holds: 'the names of members, as a search compares them',
      kept: 'until the member leaves',
      columns: {
        user_id: { person: 'gone' },
        // The memberships end in the transaction that closes the account.
        name: { erase: 'deleted with the memberships', canary: 'text' },
      },
    },
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
      columns: { user_id: { person: { stays: 'with the bytes of highlights that stay, else with zeros' } } },
    },
    storage_in_organizations: {
      holds: 'how many bytes a user stores in each organization',
      kept: 'as long as what is stored',
      columns: { user_id: { person: { stays: 'with the bytes of highlights that stay' } } },
    },
    sessions: {
      holds: 'sign-ins',
      kept: '400 days after the last token',
      columns: {
        user_id: { person: 'gone' },
        sid: { erase: 'row deleted', canary: 'token' },
        logout_sid: { erase: 'row deleted', canary: 'token' },
        device_id: { erase: 'row deleted', canary: 'token' },
        device_name: { erase: 'row deleted', canary: 'text' },
        ip_address: { erase: 'row deleted', canary: 'address' },
      },
    },
    refresh_tokens: {
      holds: 'digests of refresh tokens, to find their sign-ins and to notice that one is used twice',
      kept: 'as long as the tokens are valid, or 30 days where the provider does not say how long that is',
      columns: {
        user_id: { person: 'gone' },
        session_id: { harmless: 'the id of a sign-in' },
        hash: { harmless: 'a digest' },
        holder: { harmless: 'names a request' },
        reply: { harmless: 'encrypted under a key that only the token gives' },
      },
    },
    revocations: {
      holds: 'whose sign-ins have to be looked at again',
      kept: 'a day',
      columns: {
        user_id: { person: { stays: 'for a day: every replica has to notice' } },
        txid: { harmless: 'of the transaction' },
      },
    },
    provider_events: {
      holds: 'which messages of the identity provider have arrived',
      kept: 'a day',
      columns: { id: { harmless: 'random' } },
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
      run: ({ db }, { userId }) =>
        db.inTransaction({}, async (tx) => {
          await eraseSessions(tx, userId)
          return {}
        }),
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
