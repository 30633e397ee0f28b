import type { Test } from 'tap'
import type { Fault } from './store-cluster.ts'

interface World {
  writes: readonly string[]
  errors: readonly unknown[]
  failWrite(at: number, when: Fault): void
}

/**
 * Lives a whole life in a world, then once more for each of its writes, where that write fails before it is made, or its
 * answer is lost: each ends as the first. Returns the first.
 */
export async function loseEachWrite<W extends World>(
  t: Test,
  world: () => W,
  { live, ending }: { live(w: W): Promise<unknown>; ending(w: W): unknown },
): Promise<W> {
  const whole = world()
  await live(whole)
  const want = ending(whole)
  for (const [k, write] of whole.writes.entries()) {
    for (const when of ['before', 'after'] satisfies Fault[]) {
      const w = world()
      w.failWrite(k + 1, when)
      await live(w)
      t.match(w.errors, [/lost/], `${write} fails once`)
      t.strictSame(ending(w), want, `${when} write ${k + 1}, ${write}`)
    }
  }
  return whole
}
