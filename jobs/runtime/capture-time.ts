/** The year of the oldest photograph. A scan carries the time of its print. */
const FIRST_YEAR = 1826

/**
 * What cameras and programs without a clock write: the moment that a container, a system or a file system counts from.
 * Not the year 2000, which old cameras begin with: they count on from there, and its first second was photographed a lot.
 */
const EPOCHS = ['1904-01-01', '1970-01-01', '1980-01-01'].map((date) => Date.parse(date))
/** Those that count in UTC: on a clock that shows local time, they are off by its zone, which is at most 14 hours. */
const UTC_EPOCHS = EPOCHS.slice(0, 2)
const ZONE_MS = 14 * 3_600_000

/** Whether something can have been captured then, rather than with a clock that was never set. Pure. */
export const isCaptureTime = (at: Date): boolean =>
  at.getUTCFullYear() >= FIRST_YEAR && at.getUTCFullYear() <= 9999 && !EPOCHS.includes(at.getTime())

/** The same for a time on a clock of an unknown zone, given as if it were UTC. Pure. */
export const isLocalCaptureTime = (at: Date): boolean =>
  isCaptureTime(at) && !UTC_EPOCHS.some((epoch) => Math.abs(at.getTime() - epoch) <= ZONE_MS)
