import type { Uuid } from '../../../../lib/contract/ids.ts'
import { type Admission, type AdmissionOptions, startAdmission } from '../../../worker/admission.ts'
import { admitVideos, VIDEOS } from './admission-queries.ts'
import { findConversion } from './queries.ts'
import { type ConversionDeps, startConversion } from './start.ts'

/** Admission of videos, which get a TranscodeJob each. */
export function startVideoAdmission(deps: ConversionDeps, options: AdmissionOptions): Admission {
  async function start(id: Uuid): Promise<void> {
    const media = await deps.db.read({}, (tx) => findConversion(tx, id))
    if (media?.uploadStatus === 'processing' && media.conversionAdmittedAt) await startConversion(deps, media)
  }
  return startAdmission(deps, { subject: 'admission', line: VIDEOS, admit: admitVideos, start }, options)
}
