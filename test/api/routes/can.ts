import t, { type Test } from 'tap'
import { expiryAt } from '../../../api/features/media/delivery/token.ts'
import { CATALOG } from '../../../api/features.ts'
import { type Answer, type Person, startTestApi } from '../../support/api.ts'
import type { Scene, Subject } from '../../support/can-scene.ts'
import { scenesOf } from '../../support/can-scenes.ts'
import { ROUTES, succeeds } from '../../support/route-table.ts'

const api = await startTestApi(t)

/** Actions that no operation performs: they shape what other operations show. */
const WITHOUT_OPERATION = CATALOG.actions.filter((action) => !ROUTES.some((route) => route.action === action))

for (const scene of scenesOf(api)) {
  const actions = CATALOG.actions.filter((one) => one.on === scene.kind && !WITHOUT_OPERATION.includes(one))
  for (const [state, make] of Object.entries(scene.states)) {
    for (const [name, who] of Object.entries(scene.callers)) {
      t.test(`${scene.kind}, ${state}: ${name} can do what is listed, and nothing else`, (t) =>
        compare(t, { make, who, names: actions.map((one) => one.name) }),
      )
    }
  }
}

/** Of an hour: links change with it. */
function quarter(): number {
  return expiryAt(Math.floor(Date.now() / 1000))
}

interface Compared {
  make: Scene['states'][string]
  who: Person
  names: string[]
}

/** What was refused, and what was only read, leaves the resource as it was: the next attempt is of the same one. */
async function compare(t: Test, { make, who, names }: Compared): Promise<void> {
  let subject: Subject | undefined
  let before: Answer['data'] | undefined
  let shownIn = 0
  for (const name of names) {
    if (!subject || quarter() !== shownIn) {
      shownIn = quarter()
      subject ??= await make()
      before = await subject.show(who)
    }
    const { show, attempts } = subject
    const attempt = attempts[name]
    if (!attempt) {
      t.fail(`the scene has no request for ${name}`)
      continue
    }
    const { method, path, ...body } = await attempt(who)
    const answer = await api.call(who, method, path, body)
    const says = `${name}: ${answer.status} ${answer.code ?? ''}`
    if (before?.can.includes(name)) t.ok(succeeds(answer.status), `listed, ${says}`)
    else if (succeeds(answer.status)) await changesNothing(t, says, before, await show(who))
    else t.ok([403, 404, 409, 410, 422].includes(answer.status), `not listed, ${says}`)
    if (succeeds(answer.status) && method !== 'GET') subject = undefined
  }
}

/** A repeat: it succeeds, and the resource is as it was. */
async function changesNothing(t: Test, says: string, before: Answer['data'], after: Answer['data']): Promise<void> {
  if (before === undefined) t.fail(`on what the caller cannot see, ${says}`)
  else t.strictSame(after, before, `not listed, and changes nothing, ${says}`)
}
