import { type PersonalPart, step } from '../personal/part.ts'
import { shredPersonKeys } from './key-queries.ts'

const LINK = {
  entry_id: { harmless: 'the id of an entry' },
  hash: { harmless: 'a digest of what is encrypted' },
} as const

/** The audit log. */
export const auditPart: PersonalPart = {
  personal: {
    audit_log: {
      holds: 'who did what, and where the request came from',
      kept: '7 years',
      columns: {
        actor_id: { person: { stays: 'the log proves that something was done, by an anonymous member' } },
        action: { harmless: 'a closed list' },
        resource_type: { harmless: 'a closed list' },
        resource_id: { person: { stays: 'as that of the actor' } },
        ip_address: { harmless: 'of earlier versions only: encrypted, and removed here, before the entry is sealed' },
        user_agent: { harmless: 'as the address' },
        request_id: { harmless: 'random' },
        details: { person: { stays: 'ids and operations, never personal data' } },
        client_request_id: {
          harmless: 'of earlier versions only: what a client calls its request, if that has the form of an id',
        },
        personal: { harmless: 'encrypted under the key of the person, which is destroyed' },
        address_index: { harmless: 'a keyed digest, whose key changes every month' },
        txid: { harmless: 'of the transaction' },
      },
    },
    audit_keys: {
      holds: 'the keys of what the log holds of people',
      kept: 'as long as the account',
      columns: {
        person_id: { person: { stays: 'marked, so that no new key is ever made' } },
        master_id: { harmless: 'the name of a key of the installation' },
        wrapped: { harmless: 'the key itself, encrypted; deleted' },
      },
    },
    audit_actor_days: {
      holds: 'the days on which someone did something',
      kept: '7 years',
      columns: { actor_id: { person: { stays: 'as in the log' } } },
    },
    audit_links: { holds: 'the chain that seals the log', kept: '7 years', columns: LINK },
    audit_heads: { holds: 'the ends of the chains', kept: '7 years', columns: { hash: LINK.hash } },
    audit_cursor: {
      holds: 'how far the log is sealed',
      kept: 'always',
      columns: {
        upto: { harmless: 'of a transaction' },
        system_identifier: { harmless: 'of the database' },
        before_id: { harmless: 'the id of an entry' },
      },
    },
    audit_day_leases: {
      holds: 'which process moves which day',
      kept: '7 years',
      columns: { lease_token: { harmless: 'random' } },
    },
    audit_day_attempts: {
      holds: 'objects of days that are being written',
      kept: '7 days',
      columns: {
        lease_token: { harmless: 'random' },
        object_key: { harmless: 'a day and a random id' },
      },
    },
    audit_days: {
      holds: 'the days whose chains are closed',
      kept: '7 years',
      columns: { anchor_sha256: { harmless: 'a digest' } },
    },
    audit_restores: {
      holds: 'when a backup was restored',
      kept: 'always',
      columns: { entry_id: { harmless: 'the id of an entry' } },
    },
    audit_since: { holds: 'since when the log has a partition for each day', kept: 'always', columns: {} },
  },
  erase: [
    step({
      name: 'audit.keys',
      phase: 'identity',
      does: 'entries stay; the keys of the address and the program that requests came from are destroyed',
      run: ({ db }, { userId }) =>
        db.inTransaction({}, async (tx) => {
          await shredPersonKeys(tx, userId)
          return {}
        }),
    }),
  ],
}
