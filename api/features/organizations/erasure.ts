import type { PersonalPart } from '../../personal/part.ts'

export const organizationsPart: PersonalPart = {
  personal: {
    organizations: {
      holds: 'organizations',
      kept: 'always',
      columns: { name: { harmless: 'of an administrator' } },
    },
    memberships: {
      holds: 'who belongs to which organization',
      kept: 'until the member leaves',
      // They end in the transaction that closes the account.
      columns: { user_id: { person: 'gone' } },
    },
  },
  erase: [],
}
