import { parse, validateDetailed } from 'node-cron'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
/** The longest wait for a slot: from one 29 February to the next across a year like 2100, and a day. */
const MAX_DAYS = 366 * 8 + 3
/** Kubernetes knows no later time. */
const END_OF_TIME = Date.UTC(9999, 11, 31, 23, 59, 59)

/** The slots of a schedule, whole minutes in UTC. */
export interface Schedule {
  /** The first slot after this time; undefined if there is none before the year 10000. */
  next(after: Date): Date | undefined
  /** The last slot up to this time, itself included. */
  last(until: Date): Date | undefined
}

/**
 * Reads five cron fields. node-cron's own timers are not used: they forget slots when the process is busy or restarts,
 * and cannot be asked about another moment than now.
 */
export function parseSchedule(text: string): { schedule: Schedule } | { fault: string } {
  const fault = faultOf(text)
  if (fault !== undefined) return { fault }
  const fields = parse(text)
  const numbers = (values: readonly (number | string)[]) => values.map(Number).sort((a, b) => a - b)
  const [minutes, hours, months] = [numbers(fields.minute), numbers(fields.hour), new Set(numbers(fields.month))]
  const daysOfMonth = new Set(numbers(fields.dayOfMonth))
  const weekdays = new Set(numbers(fields.dayOfWeek).map((day) => day % 7))
  // One of them is *, so that this is neither the "or" of cron nor the "and" of node-cron.
  const isDay = (day: Date) =>
    months.has(day.getUTCMonth() + 1) && daysOfMonth.has(day.getUTCDate()) && weekdays.has(day.getUTCDay())
  const times = hours.flatMap((hour) => minutes.map((minute) => (hour * 60 + minute) * MINUTE_MS))

  /** The day of this time, and those before or after it that have slots. */
  function* days(from: Date, step: 1 | -1): Generator<number> {
    const start = Math.floor(from.getTime() / DAY_MS) * DAY_MS
    for (let n = 0; n <= MAX_DAYS; n++) {
      const day = start + step * n * DAY_MS
      if (isDay(new Date(day))) yield day
    }
  }

  return {
    schedule: {
      next(after) {
        for (const day of days(after, 1)) {
          const slot = times.map((time) => day + time).find((at) => at > after.getTime())
          if (slot !== undefined) return slot <= END_OF_TIME ? new Date(slot) : undefined
        }
        return undefined
      },
      last(until) {
        for (const day of days(until, -1)) {
          const slot = times.map((time) => day + time).findLast((at) => at <= until.getTime())
          if (slot !== undefined) return new Date(slot)
        }
        return undefined
      },
    },
  }
}

/** node-cron takes a sixth field for seconds, words, and ranges that end before they begin. */
function faultOf(text: string): string | undefined {
  const fields = text.split(' ')
  if (fields.length !== 5) return 'must have five fields: minute, hour, day of the month, month and weekday'
  const foreign = fields.find((field) => !/^[0-9*,/-]+$/.test(field))
  if (foreign !== undefined) return `"${foreign}" has characters other than digits and * , / -`
  if (fields[2] !== '*' && fields[4] !== '*') return 'the day of the month or the weekday must be *'
  const backward = [...text.matchAll(/(\d+)-(\d+)/g)].find(([, from, to]) => Number(from) > Number(to))
  if (backward) return `the range ${backward[0]} ends before it begins`
  const { valid, errors } = validateDetailed(text)
  return valid ? undefined : errors.map((e) => e.message).join('; ')
}
