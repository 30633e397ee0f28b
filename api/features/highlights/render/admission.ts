import type { Admission, AdmissionOptions } from '../../../worker/admission.ts'
import { startSlots } from '../../../worker/runs/slots.ts'
import type { StartDeps } from '../../../worker/runs/start.ts'
import { FILMS, replaceBrokenMotion } from './admission-queries.ts'
import { RENDERS } from './kind.ts'

/** Admission of films, which get a HighlightRender each. */
export const startFilmAdmission = (deps: StartDeps, options: AdmissionOptions): Admission =>
  startSlots(deps, RENDERS, { line: FILMS, onAdmitted: replaceBrokenMotion, ...options })
