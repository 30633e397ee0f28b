import { stat } from 'node:fs/promises'
import { formatId, newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { trackKey } from '../../../lib/contract/object-keys.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import { type AuditDetails, insertAudit } from '../../audit/queries.ts'
import type { Database, Tx } from '../../db/db.ts'
import type { MusicTrackRow } from '../../db/schema/highlights.ts'
import { tidyText } from '../../requests/text.ts'
import { probeAudio } from './probe.ts'
import { findTrack, insertTrack, markRetired } from './queries.ts'

export interface NewTrack {
  /** Path of the audio file. */
  file: string
  title: string
  license: string
  attribution: string
}

export const MAX_BYTES = 200 * 1024 ** 2

/**
 * For administrators, as keepsake_worker: offers a music track for highlights. The file first, then the row: if the
 * command dies in between, the file is left in the store and nothing names it.
 */
export async function addTrack(db: Database, store: ObjectStore, given: NewTrack): Promise<MusicTrackRow> {
  const texts = {
    title: asText(given.title, 'title', 200),
    license: asText(given.license, 'license', 200),
    attribution: asText(given.attribution, 'attribution', 500),
  }
  const fileSizeBytes = await sizeOf(given.file)
  const { mimeType, durationSec } = await probeAudio(given.file)
  const id = newUuid()
  await store.upload(given.file, trackKey(id), { contentType: mimeType })
  failpoint('track.stored')
  return db.inTransaction({}, async (tx) => {
    const row = await insertTrack(tx, { id, ...texts, durationSec, mimeType, fileSizeBytes })
    await audit(tx, id, { operation: 'add track', track_id: formatId('track', id) })
    return row
  })
}

/** Hides a track from new highlights. Retiring it again changes nothing. */
export const retireTrack = (db: Database, id: Uuid): Promise<MusicTrackRow> =>
  db.inTransaction({}, async (tx) => {
    const retired = await markRetired(tx, id)
    if (retired) await audit(tx, id, { operation: 'retire track' })
    const row = retired ?? (await findTrack(tx, id))
    if (!row) throw new Problem('NOT_FOUND', 'There is no such track')
    return row
  })

function asText(text: string, name: string, max: number): string {
  const tidied = tidyText(text, { min: 1, max })
  if ('issue' in tidied) throw new Problem('VALIDATION_ERROR', `The ${name} ${tidied.issue}`)
  return tidied.text
}

async function sizeOf(file: string): Promise<number> {
  const found = await stat(file).catch((cause: unknown) => {
    throw new Problem('NOT_FOUND', `There is no file ${file}`, { cause })
  })
  if (!found.isFile()) throw new Problem('UNSUPPORTED_MEDIA', `${file} is not a file`)
  if (found.size > MAX_BYTES) throw tooLarge()
  return found.size
}

export const tooLarge = () => new Problem('FILE_TOO_LARGE', 'The file is larger than 200 MiB')

const audit = (tx: Tx, resourceId: Uuid, details: AuditDetails) =>
  insertAudit(tx, {
    orgId: null,
    actorId: null,
    action: 'ADMIN_ACTION',
    resourceType: 'track',
    result: 'success',
    context: null,
    resourceId,
    details,
  } as const)
