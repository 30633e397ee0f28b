import { GROUP } from '../../crds/kind.ts'
import type { Run, RunStatus } from '../../crds/run.ts'
import type { Job } from '../jobs/batch.ts'
import { bytesOf, quantityOf } from '../jobs/quantity.ts'

/**
 * The resources of the attempts of one Job. A Job's template is immutable, so other resources need another Job. The
 * decision is recorded in status first, so that it survives a crash.
 */
export interface Shape {
  memory: string
  gpu: boolean
  /** Attempts of earlier Jobs of this resource. */
  attemptsBefore: number
}

export interface ShapeConfig {
  /** Memory of the first attempt. */
  memory: string
  /** Whether any node offers `nvidia.com/gpu`. */
  gpuAvailable: boolean
}

const MEMORY = `${GROUP}/memory`
const GPU = `${GROUP}/gpu`
const ATTEMPTS_BEFORE = `${GROUP}/attempts-before`

/** The shape of the resource's next Job. `auto` requests a GPU where nodes have any, until the wait timed out once. */
export function nextShape({ spec, status }: Run, config: ShapeConfig): Shape {
  const isWorthAsking = config.gpuAvailable && status?.gpuGivenUp === undefined
  return {
    memory: status?.memory ?? config.memory,
    gpu: spec.accelerator === 'gpu' || (spec.accelerator === 'auto' && isWorthAsking),
    attemptsBefore: status?.attempts ?? 0,
  }
}

export const shapeAnnotations = ({ memory, gpu, attemptsBefore }: Shape): Record<string, string> => ({
  [MEMORY]: memory,
  ...(gpu && { [GPU]: '1' }),
  ...(attemptsBefore > 0 && { [ATTEMPTS_BEFORE]: String(attemptsBefore) }),
})

/** The shape of this Job, from its annotations: the configuration may have changed since. */
export function shapeOf({ metadata }: Job, config: ShapeConfig): Shape {
  const said = metadata.annotations ?? {}
  return {
    memory: said[MEMORY] ?? config.memory,
    gpu: GPU in said,
    attemptsBefore: Number.parseInt(said[ATTEMPTS_BEFORE] ?? '0', 10) || 0,
  }
}

/** Whether status requires another shape by now, so that this Job must be replaced. */
export function isOutgrown({ status }: Run, { memory, gpu }: Shape): boolean {
  if (gpu && status?.gpuGivenUp !== undefined) return true
  return status?.memory !== undefined && bytesOf(status.memory) > bytesOf(memory)
}

/** Twice as much, up to the maximum; undefined when the attempt already had the maximum. */
export function moreMemory(memory: string, most: string): string | undefined {
  const [had, limit] = [bytesOf(memory), bytesOf(most)]
  if (had >= limit) return undefined
  return had * 2 >= limit ? most : quantityOf(had * 2)
}

/** The number of Jobs replaced by one of another shape: one for the GPU, one for each doubling of memory. */
export function shapesLearned(status: RunStatus | undefined, { memory }: ShapeConfig): number {
  const doubled = status?.memory === undefined ? 0 : Math.ceil(Math.log2(bytesOf(status.memory) / bytesOf(memory)))
  return Math.max(0, doubled) + (status?.gpuGivenUp === undefined ? 0 : 1)
}
