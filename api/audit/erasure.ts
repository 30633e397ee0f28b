import { type PersonalPart, step } from '../personal/part.ts'
import { eraseOrigins } from './erasure-queries.ts'

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
        ip_address: { erase: 'removed', canary: 'address' },
        user_agent: { erase: 'removed', canary: 'agent' },
        request_id: { harmless: 'random' },
        details: { person: { stays: 'ids and operations, never personal data' } },
        client_request_id: { erase: 'removed', canary: 'token' },
      },
    },
  },
  erase: [
    step({
      name: 'audit.origins',
      phase: 'traces',
      does: 'entries stay, without the address and the program that requests came from',
      run: async ({ db }, { userId }) => ({ entries: await eraseOrigins(db, userId) }),
    }),
  ],
}
