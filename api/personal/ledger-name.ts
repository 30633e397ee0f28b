import { createHmac } from 'node:crypto'
import type { Uuid } from '../../lib/contract/ids.ts'

const keyed = (key: string, about: string) => createHmac('sha256', Buffer.from(key, 'base64url')).update(about)

/** The name of a user in the ledger of erasures: who has it and not the key cannot tell whose it is. */
export const ledgerName = (key: string, userId: Uuid): string => keyed(key, `user ${userId}`).digest('hex')

/** Tells the ledger of one key from that of another. */
export const ledgerKeyMark = (key: string): string => keyed(key, 'the key of this ledger').digest('hex')

/** With it, who is erased follows the erasure after the account is closed. */
export const followToken = (key: string, erasureId: Uuid): string =>
  keyed(key, `follow ${erasureId}`).digest('base64url')
