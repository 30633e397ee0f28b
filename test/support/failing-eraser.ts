import { setTimeout as sleep } from 'node:timers/promises'
import { carryOut } from '../../api/features/erasure/saga.ts'
import { ERASE_STEPS } from '../../api/features.ts'
import type { EraseDeps } from '../../api/personal/part.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'

/**
 * Carries out an erasure of which each step fails once behind its last line, as if its process had died there: it runs
 * twice. Resolves when the erasure is completed.
 */
export async function eraseFailing(deps: EraseDeps, id: string): Promise<void> {
  const failed = new Set<string>()
  const steps = ERASE_STEPS.map((step) => ({
    ...step,
    async run(...given: Parameters<typeof step.run>) {
      const erased = await step.run(...given)
      failpoint(`erasure.ran.${step.name}`)
      if (failed.has(step.name)) return erased
      failed.add(step.name)
      throw new Error('as if it had died')
    },
  }))
  for (let isOver = false; !isOver; await sleep(20)) {
    isOver = await carryOut(deps, steps, id).then(
      (outcome) => outcome === undefined,
      (error: unknown) => {
        if (!(error instanceof AggregateError && error.errors.every(isMeant))) throw error
        return false
      },
    )
  }
}

function isMeant(error: unknown): boolean {
  return error instanceof Error && error.message === 'as if it had died'
}
