import t from 'tap'
import { openSightings } from '../../../../api/worker/runs/sightings.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'

const [one, other] = [newUuid(), newUuid()]
const DAY = 86_400

function opened() {
  let seconds = 1000
  const sightings = openSightings(() => seconds * 1000)
  const pass = (more: number) => {
    seconds += more
  }
  return { ...sightings, pass }
}

t.test('time counts from the first look that showed the same, for each row alone', async (t) => {
  const { secondsOf, forget, pass } = opened()
  t.equal(secondsOf(one, 'a'), 0)
  pass(5)
  t.strictSame([secondsOf(one, 'a'), secondsOf(other, 'a')], [5, 0])
  pass(5)
  t.strictSame([secondsOf(one, 'b'), secondsOf(other, 'a')], [0, 5], 'it shows something else')
  pass(5)
  t.strictSame([secondsOf(one, 'a'), secondsOf(other, 'a')], [0, 10], 'as before, but not all the time')
  forget(other)
  t.equal(secondsOf(other, 'a'), 0)
})

t.test('the time since a suspension counts from the last look at it', async (t) => {
  const { sawSuspended, secondsSinceSuspended, forget, pass } = opened()
  t.equal(secondsSinceSuspended(one), undefined)
  sawSuspended(one)
  pass(5)
  sawSuspended(one)
  forget(one)
  pass(7)
  t.equal(secondsSinceSuspended(one), 7)
})

t.test('what no sweep has looked at for a month is dropped, and nothing else', async (t) => {
  const { secondsOf, sawSuspended, secondsSinceSuspended, prune, pass } = opened()
  for (const id of [one, other]) {
    secondsOf(id, 'a')
    sawSuspended(id)
  }
  pass(20 * DAY)
  secondsOf(one, 'a')
  sawSuspended(one)
  pass(11 * DAY)
  prune()
  t.strictSame([secondsOf(one, 'a'), secondsOf(other, 'a')], [31 * DAY, 0])
  t.strictSame([secondsSinceSuspended(one), secondsSinceSuspended(other)], [11 * DAY, undefined])
})
