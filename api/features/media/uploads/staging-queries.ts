import type { Tx } from '../../../db/db.ts'
import { sql } from '../../../db/orm.ts'
import { releasedStaging, type UploadRow } from '../../../db/schema/uploads.ts'

/** Where the chunks of ended sessions were. */
export const STAGING_LOOKS = { table: releasedStaging, id: releasedStaging.uploadId }

/** Has housekeeping look again where the chunks of an ended session were. A session that was released twice has one entry. */
export async function insertStaging(
  tx: Tx,
  { id, orgId }: Pick<UploadRow, 'id' | 'orgId'>,
  inSeconds: number,
): Promise<void> {
  await tx
    .insert(releasedStaging)
    .values({ uploadId: id, orgId, nextLookAt: sql`now() + make_interval(secs => ${inSeconds})` })
    .onConflictDoNothing()
}
