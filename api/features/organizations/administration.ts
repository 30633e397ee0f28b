import { formatId, type Uuid } from '../../../lib/contract/ids.ts'
import { ROLES, type Role } from '../../../lib/contract/roles.ts'
import { type Commands, idOf, textOf, UsageError } from '../../command-line/command.ts'
import type { Tx } from '../../db/db.ts'
import { LedgerKey } from '../../personal/ledger-key.ts'
import { ledgerName } from '../../personal/ledger-name.ts'
import { isInLedger } from '../../personal/queries.ts'
import { addMember, changeRole, createOrganization } from './commands.ts'

/** Commands of administrators. */
export const organizationCommands: Commands = {
  'org create': {
    args: ['NAME'],
    help: ['org create NAME', 'create an organization'],
    async run({ db }, [name = '']) {
      const made = await createOrganization(db, name)
      return { org_id: formatId('organization', made.orgId), name: made.name }
    },
  },
  'member add': {
    args: ['ORG', 'USER'],
    options: { role: 'string' },
    help: ['member add ORG USER [--role ROLE]', 'add a user (ROLE: owner, admin or member; default: member)'],
    async run({ db, issuer, settings }, [org = '', user = ''], options) {
      const role = asRole(textOf(options, 'role') ?? 'member')
      const isErased = (tx: Tx, id: Uuid) => isInLedger(tx, ledgerName(settings(LedgerKey).ERASURE_KEY, id))
      const member = await addMember(db, { orgId: idOf('organization', org), user, role, issuer, isErased })
      return { ...shown(member), added: member.added }
    },
  },
  'member role': {
    args: ['ORG', 'USER', 'ROLE'],
    help: ['member role ORG USER ROLE', 'change the role of a member'],
    async run({ db, issuer }, [org = '', user = '', role = '']) {
      return shown(await changeRole(db, { orgId: idOf('organization', org), user, role: asRole(role), issuer }))
    },
  },
}

const shown = (m: { orgId: Uuid; userId: Uuid; role: Role }) => ({
  org_id: formatId('organization', m.orgId),
  user_id: formatId('user', m.userId),
  role: m.role,
})

function asRole(text: string): Role {
  const role = ROLES.find((known) => known === text)
  if (!role) throw new UsageError(`${text} is not a role; the roles are ${ROLES.join(', ')}`)
  return role
}
