import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import { safeMessage } from '../../../lib/runtime/log-error.ts'
import type { Database } from '../../db/db.ts'
import type { EraseDeps, ErasedPerson, EraseStep } from '../../personal/part.ts'
import { lockHolds } from '../../retention/holds-queries.ts'
import { audit } from './commands.ts'
import { isErasureHeld, recordHeld } from './hold-queries.ts'
import { inOrder, mayRun } from './plan.ts'
import {
  beginStep,
  claim,
  complete,
  dropLease,
  findErasure,
  findSteps,
  isUnfinished,
  recordFailure,
  recordStep,
} from './queries.ts'

const LEASE_SECONDS = 60
const RENEW_MS = 20_000
/** While something that is in use has to end first. */
const WAIT_MS = 2_000

/** While a legal hold keeps something of the person. */
const HELD_MS = 600_000

/** Tells when to look at the erasure again; undefined once it is completed. */
type Outcome = { againAfterMs: number } | undefined

/**
 * Carries out an erasure as far as it gets: every step that is not done, in order. A step may run again after a crash at
 * any line, and by two workers at once; the lease only saves work. Throws if a step failed, after all others had their
 * turn.
 */
export async function carryOut(deps: EraseDeps, all: readonly EraseStep[], id: Uuid): Promise<Outcome> {
  const { db, log } = deps
  const holder = newUuid()
  const lease = { holder, seconds: LEASE_SECONDS }
  const person = await db.inTransaction({}, (tx) => claim(tx, id, lease))
  if (!person) return (await db.read({}, (tx) => isUnfinished(tx, id))) ? { againAfterMs: WAIT_MS } : undefined
  failpoint('erasure.claimed')
  const renewal = setInterval(() => {
    db.inTransaction({}, (tx) => claim(tx, id, lease)).catch((error: unknown) =>
      log.warn({ err: error, erasure: id }, 'could not renew the lease of an erasure'),
    )
  }, RENEW_MS)
  try {
    return await runSteps(deps, inOrder(all), person)
  } finally {
    clearInterval(renewal)
    await db
      .inTransaction({}, (tx) => dropLease(tx, id, holder))
      .catch((error: unknown) => log.warn({ err: error, erasure: id }, 'the lease of an erasure will end by itself'))
  }
}

async function runSteps(deps: EraseDeps, steps: readonly EraseStep[], person: ErasedPerson): Promise<Outcome> {
  const { db, signal } = deps
  const { erasureId } = person
  const known = await db.read({}, (tx) => findSteps(tx, erasureId))
  const done = new Set(known.flatMap(({ step, state }) => (state === 'done' ? [step] : [])))
  const failures: unknown[] = []
  for (const step of steps) {
    signal?.throwIfAborted()
    if (done.has(step.name) || !mayRun(step, steps, done)) continue
    const ended = await attemptStep(deps, step, person)
    if (ended === 'held') return { againAfterMs: HELD_MS }
    if (ended === 'done') done.add(step.name)
    else if (ended !== 'waiting') failures.push(ended.error)
  }
  if (failures.length > 0) throw new AggregateError(failures, `${failures.length} steps of an erasure failed`)
  if (steps.some(({ name }) => !done.has(name))) return { againAfterMs: WAIT_MS }
  await finish(deps, erasureId)
  return undefined
}

/** `held`: nothing else of a person goes while a legal hold keeps any of it, and access stays closed. */
async function attemptStep(
  deps: EraseDeps,
  step: EraseStep,
  person: ErasedPerson,
): Promise<'done' | 'waiting' | 'held' | { error: unknown }> {
  const mayBeHeld = step.phase !== 'access'
  if (mayBeHeld && (await isKept(deps, person))) return 'held'
  try {
    return (await runStep(deps, step, person, mayBeHeld ? unlessHeld(deps.db, person) : deps.db)) ? 'done' : 'waiting'
  } catch (error) {
    if (error instanceof UnderHold && (await isKept(deps, person))) return 'held'
    await noteFailure(deps, step, person, error)
    return { error }
  }
}

async function isKept({ db, log }: EraseDeps, { erasureId, userId }: ErasedPerson): Promise<boolean> {
  const held = await db.inTransaction({}, async (tx) => {
    const held = await isErasureHeld(tx, userId)
    await recordHeld(tx, erasureId, held)
    return held
  })
  if (held) log.info({ erasure: erasureId }, 'an erasure waits for the end of a legal hold')
  return held
}

/** A hold came while a step was going on: the step runs again when it ends. */
class UnderHold extends Error {}

/** For a step: no transaction commits after a hold that keeps something of the person. */
const unlessHeld = (db: Database, { userId }: ErasedPerson): Database => ({
  ...db,
  inTransaction: (scope, work) =>
    db.inTransaction(scope, async (tx) => {
      await lockHolds(tx)
      if (await isErasureHeld(tx, userId)) throw new UnderHold('a legal hold keeps it')
      return work(tx)
    }),
})

/** Whether it is done: otherwise something is in use and has to end first. */
async function runStep(deps: EraseDeps, step: EraseStep, person: ErasedPerson, ofStep: Database): Promise<boolean> {
  const { db } = deps
  const { erasureId } = person
  await db.inTransaction({}, (tx) => beginStep(tx, erasureId, step.name))
  failpoint(`erasure.begun.${step.name}`)
  const { counts, isWaiting = false } = await step.run({ ...deps, db: ofStep }, person)
  failpoint(`erasure.ran.${step.name}`)
  await db.inTransaction({}, (tx) => recordStep(tx, erasureId, step.name, { counts, isDone: !isWaiting }))
  failpoint(`erasure.recorded.${step.name}`)
  return !isWaiting
}

async function noteFailure({ db, log }: EraseDeps, step: EraseStep, { erasureId }: ErasedPerson, error: unknown) {
  log.warn({ err: error, erasure: erasureId, step: step.name }, 'a step of an erasure failed; trying again later')
  await db
    .inTransaction({}, (tx) => recordFailure(tx, erasureId, step.name, safeMessage(error)))
    .catch((failure: unknown) => log.warn({ err: failure, erasure: erasureId }, 'could not record the failure'))
}

async function finish({ db, log }: EraseDeps, id: Uuid): Promise<void> {
  await db.inTransaction({}, async (tx) => {
    const row = await findErasure(tx, { id })
    if (row && (await complete(tx, id))) await audit(tx, row, 'complete', null)
  })
  failpoint('erasure.completed')
  log.info({ erasure: id }, 'an erasure is completed')
}
