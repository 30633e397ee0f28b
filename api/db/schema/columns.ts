import type { Id, IdKind } from '../../../lib/contract/ids.ts'
import { bigint, customType, timestamp, uuid } from '../orm.ts'

/** The UUID of one kind of thing. */
export const id = <K extends IdKind>(_kind: K) => uuid().$type<Id<K>>()
/** A moment, to the microsecond. */
export const time = () => timestamp({ withTimezone: true, precision: 6, mode: 'date' })
/** The end of a lease, as text: `-infinity` where there never was one, so that an index says what is free. */
export const leaseTime = customType<{ data: string }>({ dataType: () => 'timestamp with time zone' })
/** A number of bytes. */
export const bytes = () => bigint({ mode: 'number' })
/** Bytes of a hash or of what is encrypted. */
export const bytea = customType<{ data: Buffer; driverData: Buffer }>({ dataType: () => 'bytea' })
/** The number of a transaction, in which later ones are greater; not after a restore into another cluster. */
export const transactionId = customType<{ data: string }>({ dataType: () => 'xid8' })
