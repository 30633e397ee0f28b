import fc from 'fast-check'
import t from 'tap'
import { parseSchedule, type Schedule } from '../../../operator/retention-policy/schedule.ts'

const MINUTE_MS = 60_000

function scheduleOf(text: string): Schedule {
  const parsed = parseSchedule(text)
  if ('fault' in parsed) throw new Error(`${text}: ${parsed.fault}`)
  return parsed.schedule
}

/** Whether a minute is a slot, field by field. */
function isSlot(text: string, at: Date): boolean {
  const [minute = '', hour = '', dayOfMonth = '', month = '', weekday = ''] = text.split(' ')
  const isIn = (field: string, value: number, least: number, most: number) =>
    field.split(',').some((part) => {
      const [range = '', step = '1'] = part.split('/')
      const [from, to = from] = range === '*' ? [least, most] : range.split('-').map(Number)
      return value >= Number(from) && value <= Number(to) && (value - Number(from)) % Number(step) === 0
    })
  return (
    isIn(minute, at.getUTCMinutes(), 0, 59) &&
    isIn(hour, at.getUTCHours(), 0, 23) &&
    isIn(dayOfMonth, at.getUTCDate(), 1, 31) &&
    isIn(month, at.getUTCMonth() + 1, 1, 12) &&
    (isIn(weekday, at.getUTCDay(), 0, 7) || (at.getUTCDay() === 0 && isIn(weekday, 7, 0, 7)))
  )
}

/** Minute by minute; undefined when there is none within two days. */
function search(text: string, from: Date, step: 1 | -1): number | undefined {
  const whole = Math.floor(from.getTime() / MINUTE_MS) * MINUTE_MS
  const start = step > 0 ? whole + MINUTE_MS : whole
  for (let n = 0; n < 2 * 1440; n++) {
    const at = start + step * n * MINUTE_MS
    if (isSlot(text, new Date(at))) return at
  }
  return undefined
}

const field = (least: number, most: number) => {
  const value = fc.integer({ min: least, max: most })
  const range = fc.tuple(value, value).map((two) => two.sort((a, b) => a - b).join('-'))
  const step = fc.integer({ min: 1, max: most })
  const stepped = fc.tuple(fc.oneof(range, fc.constant('*')), step).map(([of, by]) => `${of}/${by}`)
  const part = fc.oneof(value.map(String), range, stepped)
  return fc.oneof(
    fc.constant('*'),
    fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => parts.join(',')),
  )
}
const days = fc.oneof(
  field(1, 31).map((dayOfMonth) => [dayOfMonth, '*'] as const),
  field(0, 7).map((weekday) => ['*', weekday] as const),
)
const anySchedule = fc
  .tuple(field(0, 59), field(0, 23), days, fc.oneof(fc.constant('*'), field(1, 12)))
  .map(([minute, hour, [dayOfMonth, weekday], month]) => `${minute} ${hour} ${dayOfMonth} ${month} ${weekday}`)
const anyTime = fc.date({ min: new Date('2024-02-26'), max: new Date('2028-03-03'), noInvalidDate: true })

/** What is wrong about this answer; undefined when nothing is, and when the search is too short to tell. */
function wrongAbout(text: string, at: Date, step: 1 | -1, found: Date | undefined): string | undefined {
  if (found && !isSlot(text, found)) return `${found.toISOString()} is no slot`
  const wanted = search(text, at, step)
  const isMissing = wanted !== undefined && found?.getTime() !== wanted
  const isNear = found !== undefined && Math.abs(found.getTime() - at.getTime()) < 47 * 3_600_000
  return isMissing || (wanted === undefined && isNear) ? `${found?.toISOString()}, not ${wanted}` : undefined
}

t.test('next and last slots are those of a search minute by minute', async (t) => {
  let near = 0
  fc.assert(
    fc.property(anySchedule, anyTime, (text, at) => {
      const parsed = parseSchedule(text)
      if ('fault' in parsed) return // such as a day that none of the months has
      const { next, last } = parsed.schedule
      for (const [step, found] of [[1, next(at)] as const, [-1, last(at)] as const]) {
        const wrong = wrongAbout(text, at, step, found)
        if (wrong) throw new Error(`${text} at ${at.toISOString()}: ${wrong}`)
        if (search(text, at, step) !== undefined) near += 1
      }
    }),
    { numRuns: 150, seed: 22 },
  )
  t.ok(near > 75, `${near} were found within two days`)
})

const SLOTS: [text: string, at: string, last: string | undefined, next: string | undefined][] = [
  ['0 3 * * *', '2026-11-26T03:00:00Z', '2026-11-26T03:00:00Z', '2026-11-27T03:00:00Z'],
  ['0 3 * * *', '2026-11-26T02:59:59.999Z', '2026-11-25T03:00:00Z', '2026-11-26T03:00:00Z'],
  ['*/15 * * * *', '2026-12-31T23:59:00Z', '2026-12-31T23:45:00Z', '2027-01-01T00:00:00Z'],
  ['0 0 29 2 *', '2096-03-01T00:00:00Z', '2096-02-29T00:00:00Z', '2104-02-29T00:00:00Z'],
  ['0 0 31 * *', '2026-04-15T00:00:00Z', '2026-03-31T00:00:00Z', '2026-05-31T00:00:00Z'],
  ['30 2 * * 7', '2026-11-26T00:00:00Z', '2026-11-22T02:30:00Z', '2026-11-29T02:30:00Z'],
  ['0 0 1 1 *', '9999-06-01T00:00:00Z', '9999-01-01T00:00:00Z', undefined],
  ['* * * * *', '9999-12-31T23:59:30Z', '9999-12-31T23:59:00Z', undefined],
]

t.test('slots around the ends of days, months, years and of time', async (t) => {
  const text = (at: Date | undefined) => at?.toISOString().replace('.000Z', 'Z')
  for (const [schedule, at, last, next] of SLOTS) {
    const found = scheduleOf(schedule)
    t.equal(text(found.last(new Date(at))), last, `last of ${schedule} at ${at}`)
    t.equal(text(found.next(new Date(at))), next, `next of ${schedule} at ${at}`)
  }
})

const FAULTS: [text: string, fault: RegExp][] = [
  ['0 0 31 2 *', /impossible day/],
  ['60 * * * *', /minute/],
  ['* 24 * * *', /hour/],
  ['* * 32 * *', /day of month/],
  ['* * * 13 *', /month/],
  ['* * * * 8', /week/],
  ['*/0 * * * *', /minute/],
  ['5-1 * * * *', /ends before it begins/],
  ['* * * * 7-1', /ends before it begins/],
  ['0 0 13 * 5', /day of the month or the weekday/],
  ['0 0 */2 * 5', /day of the month or the weekday/],
  ['* * * * * *', /five fields/],
  ['* * * *', /five fields/],
  ['', /five fields/],
  ['@daily', /five fields/],
  ['0 0 L * *', /characters/],
  ['0 0 15W * *', /characters/],
  ['0 0 * JAN *', /characters/],
  ['1,,2 * * * *', /minute/],
  ['- * * * *', /minute/],
]

t.test('what is no schedule says why', async (t) => {
  for (const [text, fault] of FAULTS) t.match(parseSchedule(text), { fault }, text)
})
