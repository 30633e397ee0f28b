import { GROUP } from '../../crds/kind.ts'
import type { TranscodeJob, TranscodeJobStatus } from '../../crds/transcode-job.ts'
import type { Job } from './batch.ts'

/**
 * What the attempts of one Job are given. A Job's template cannot be changed, so whoever needs something else needs
 * another Job; what was learned is recorded in status first, so that no crash forgets it.
 */
export interface Shape {
  memory: string
  gpu: boolean
  /** Attempts of earlier Jobs of this resource. */
  attemptsBefore: number
}

export interface ShapeConfig {
  /** What the first attempt may have. */
  memory: string
  /** Whether any node offers `nvidia.com/gpu`. */
  gpuAvailable: boolean
}

const MEMORY = `${GROUP}/memory`
const GPU = `${GROUP}/gpu`
const ATTEMPTS_BEFORE = `${GROUP}/attempts-before`

/** What the next Job of this resource is given. `auto` asks for a GPU where there are any, until none came in time. */
export function nextShape({ spec, status }: TranscodeJob, config: ShapeConfig): Shape {
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

/** What this Job was given, as it says itself: the configuration may have changed since. */
export function shapeOf({ metadata }: Job, config: ShapeConfig): Shape {
  const said = metadata.annotations ?? {}
  return {
    memory: said[MEMORY] ?? config.memory,
    gpu: GPU in said,
    attemptsBefore: Number.parseInt(said[ATTEMPTS_BEFORE] ?? '0', 10) || 0,
  }
}

/** Whether status has learned since that this Job cannot do: it is to make room for another one. */
export function isOutgrown({ status }: TranscodeJob, { memory, gpu }: Shape): boolean {
  if (gpu && status?.gpuGivenUp !== undefined) return true
  return status?.memory !== undefined && bytesOf(status.memory) > bytesOf(memory)
}

/** Twice as much, as long as that is allowed; undefined when an attempt already had the most it may have. */
export function moreMemory(memory: string, most: string): string | undefined {
  const [had, limit] = [bytesOf(memory), bytesOf(most)]
  if (had >= limit) return undefined
  return had * 2 >= limit ? most : quantityOf(had * 2)
}

/** How many Jobs made room because status learned something: one for the GPU, one for each time memory was doubled. */
export function shapesLearned(status: TranscodeJobStatus | undefined, { memory }: ShapeConfig): number {
  const doubled = status?.memory === undefined ? 0 : Math.ceil(Math.log2(bytesOf(status.memory) / bytesOf(memory)))
  return Math.max(0, doubled) + (status?.gpuGivenUp === undefined ? 0 : 1)
}

const UNITS: Record<string, number> = { '': 1, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 }
for (const [i, unit] of ['Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'].entries()) UNITS[unit] = 1024 ** (i + 1)

/** A Kubernetes quantity in bytes; NaN for anything else. */
export function bytesOf(quantity: string): number {
  const [, number = '', unit = ''] = /^(\d+(?:\.\d+)?)([a-zA-Z]*)$/.exec(quantity) ?? []
  return Number.parseFloat(number) * (UNITS[unit] ?? Number.NaN)
}

/** In the largest unit that divides it. */
function quantityOf(bytes: number): string {
  const whole = Math.ceil(bytes)
  const unit = ['Gi', 'Mi', 'Ki'].find((u) => whole % (UNITS[u] ?? 1) === 0) ?? ''
  return `${whole / (UNITS[unit] ?? 1)}${unit}`
}
