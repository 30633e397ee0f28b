import type { Tx } from '../../db/db.ts'
import type { DownloadKey } from '../downloads/queries.ts'
import { devicesOf } from './push/queries.ts'
import { insertDeliveries, insertDownloadReady, mailAddressesOf } from './queries.ts'

/**
 * Tells the person that a download is ready, in the transaction that makes it so: then neither is there without the
 * other. Where a channel is switched off, the sweep of notifications suppresses its delivery.
 */
export async function tellDownloadReady(tx: Tx, download: DownloadKey): Promise<void> {
  if (!(await insertDownloadReady(tx, download))) return
  await insertDeliveries(tx, 'email', await mailAddressesOf(tx, [download.id]), undefined)
  await insertDeliveries(tx, 'push', await devicesOf(tx, [download.id]), undefined)
}
