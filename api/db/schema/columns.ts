import { bigint, timestamp } from 'drizzle-orm/pg-core'

/** A moment, to the microsecond. */
export const time = () => timestamp({ withTimezone: true, precision: 6, mode: 'date' })
/** A number of bytes. */
export const bytes = () => bigint({ mode: 'number' })
