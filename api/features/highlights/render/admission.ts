import type { Admission, AdmissionOptions } from '../../../worker/runs/admission.ts'
import { startSlots } from '../../../worker/runs/slots.ts'
import type { StartDeps } from '../../../worker/runs/start.ts'
import { RENDER_LINE, updateItems } from './admission-queries.ts'
import { RENDERS } from './kind.ts'

/** Admission of highlights, which get a HighlightRender each. */
export const startRenderAdmission = (deps: StartDeps, options: AdmissionOptions): Admission =>
  startSlots(deps, RENDERS, { line: RENDER_LINE, onAdmitted: updateItems, ...options })
