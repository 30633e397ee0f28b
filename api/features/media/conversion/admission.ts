import type { Admission, AdmissionOptions } from '../../../worker/runs/admission.ts'
import { startSlots } from '../../../worker/runs/slots.ts'
import type { StartDeps } from '../../../worker/runs/start.ts'
import { VIDEOS } from './admission-queries.ts'
import { CONVERSIONS } from './kind.ts'

/** Admission of videos, which get a TranscodeJob each. */
export const startVideoAdmission = (deps: StartDeps, options: AdmissionOptions): Admission =>
  startSlots(deps, CONVERSIONS, { line: VIDEOS, ...options })
