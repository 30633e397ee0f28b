import type { Uuid } from '../../lib/contract/ids.ts'
import type { Change } from '../http/in-organization.ts'

/** Records who is to be told of an event that has become active, in the transaction of the activation. */
export async function tellInvitees(_change: Change, _event: { id: Uuid; orgId: Uuid }): Promise<void> {
  // Nobody can be invited yet.
}
