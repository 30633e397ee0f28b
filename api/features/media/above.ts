import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import type { AboveDelivery } from './delivery/deliver.ts'

/** What features above this one add to it. */
export interface AboveMedia extends AboveDelivery {
  /**
   * Whether an event shows a media item to this user as its guest: in its album, if guests see that, or in its comments.
   * Decides on nothing for members.
   */
  isShownToGuest(tx: Tx, asked: { orgId: Uuid; mediaId: Uuid; userId: Uuid }): Promise<boolean>
}
