import { type Admission, type AdmissionOptions, startAdmission } from '../../../worker/admission.ts'
import { admitFilms, FILMS } from './admission-queries.ts'
import { type RenderDeps, startRender } from './start.ts'

/** Admission of films, which get a HighlightRender each. */
export const startFilmAdmission = (deps: RenderDeps, options: AdmissionOptions): Admission =>
  startAdmission(
    deps,
    { subject: 'film', line: FILMS, admit: admitFilms, start: (id) => startRender(deps, id) },
    options,
  )
