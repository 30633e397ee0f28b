import type { Admission, AdmissionOptions } from '../../../worker/runs/admission.ts'
import { startSlots } from '../../../worker/runs/slots.ts'
import type { StartDeps } from '../../../worker/runs/start.ts'
import { videosWith } from './admission-queries.ts'
import { conversionsWith } from './kind.ts'

export interface VideoAdmissionOptions extends AdmissionOptions {
  /** Most pods of one video at the same time; one by default. */
  maxParallelism?: number
}

/** Admission of videos, which get a TranscodeJob each. */
export function startVideoAdmission(
  deps: StartDeps,
  { maxParallelism = 1, ...options }: VideoAdmissionOptions,
): Admission {
  const limits = { maxParallelism, maxPerOrganization: options.maxPerOrganization }
  return startSlots(deps, conversionsWith(limits), { line: videosWith(limits), ...options })
}
