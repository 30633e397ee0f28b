import fc from 'fast-check'
import t from 'tap'
import { compareInFile, membersOf } from '../../../../api/audit/archive/members-plan.ts'
import { addDays, type Segment, segmentsOf, segmentsOfDays } from '../../../../api/audit/archive/segments-plan.ts'

const day = (n: number) => addDays('2026-11-21', -n)
const daysIn = (segments: Iterable<Segment>, oldest: string) =>
  [...segments].flatMap((segment) => {
    if (segment.kind === 'archived') return [`${segment.day} archived`]
    const days: string[] = []
    for (let at = segment.to; at >= (segment.from ?? oldest); at = addDays(at, -1)) days.push(`${at} hot`)
    return days
  })

t.test('segments cover each day once, the latest first, and never a hot one with an archived day', async () => {
  fc.assert(
    fc.property(
      fc.nat(30),
      fc.option(fc.nat(60)),
      fc.uniqueArray(fc.nat(70)),
      fc.nat(60),
      (first, more, archivedDays, since) => {
        const archived = new Set(archivedDays.map(day))
        const last = more === null ? null : day(first + more)
        const oldest = last ?? day(120)
        const wanted: string[] = []
        for (let n = first; day(n) >= oldest; n++) wanted.push(`${day(n)} ${archived.has(day(n)) ? 'archived' : 'hot'}`)
        const found = daysIn(segmentsOf({ first: day(first), last, archived, since: day(since) }), oldest)
        return found.join() === wanted.join()
      },
    ),
  )
})

t.test('segments of a person have each of their days, and at most seven in a row', async () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(60)), fc.uniqueArray(fc.nat(60)), (mine, archivedDays) => {
      const archived = new Set(archivedDays.map(day))
      const days = mine.map(day).sort().reverse()
      const segments = [...segmentsOfDays(days, archived)]
      const covered = daysIn(segments, '')
      return (
        days.every((one) => covered.includes(`${one} ${archived.has(one) ? 'archived' : 'hot'}`)) &&
        covered.every((one) => !one.endsWith('hot') || !archived.has(one.slice(0, 10))) &&
        covered.join() === covered.toSorted().reverse().join() &&
        segments.every((one) => one.kind === 'archived' || (one.from !== null && addDays(one.from, 6) >= one.to))
      )
    }),
  )
})

t.test('the members of a person hold all of their entries up to a time', async () => {
  const people = ['a', 'b', 'c', null]
  const entry = fc.record({ actor: fc.constantFrom(...people), at: fc.nat(9) })
  fc.assert(
    fc.property(
      fc.array(entry, { minLength: 1, maxLength: 40 }),
      fc.integer({ min: 1, max: 5 }),
      fc.constantFrom('a', 'b', 'c'),
      fc.option(fc.nat(9), { nil: undefined }),
      (given, lines, actor, upTo) => {
        const sorted = given
          .map((one, n) => ({ actorId: one.actor, occurredAt: String(one.at), id: String(100 + n) }))
          .sort(compareInFile)
        const members = sorted.flatMap((one, n) =>
          n % lines === 0 ? [{ actor: one.actorId, at: one.occurredAt, offset: n }] : [],
        )
        const range = membersOf(members, actor, upTo === undefined ? undefined : String(upTo))
        const inRange = (n: number) =>
          range !== undefined && Math.floor(n / lines) >= range.first && Math.floor(n / lines) <= range.last
        return sorted.every(
          (one, n) => one.actorId !== actor || (upTo !== undefined && one.occurredAt > String(upTo)) || inRange(n),
        )
      },
    ),
  )
})
