import type { Tx } from '../../db/db.ts'
import type { MediaRow } from '../../db/schema/media.ts'
import type { Change } from '../../requests/change.ts'
import { type Half, livePhotoOf, lookupsOf } from './pairing-plan.ts'
import { findUnpaired, link } from './pairing-queries.ts'

/** Pairs a half with its counterpart, if that has arrived, and announces it. `lockPairing` must come before its insert. */
export async function pair({ tx, announce }: Change, half: MediaRow): Promise<MediaRow> {
  const counterpart = await findCounterpart(tx, half)
  if (!counterpart) return half
  const [ours, theirs] = [await link(tx, half, counterpart), await link(tx, counterpart, half)]
  const photo = livePhotoOf(ours, theirs)
  if (!photo) throw new Error('the counterpart of a half is of the same kind')
  const { image, video } = photo
  await announce('LivePhotoPaired', image, {
    media_id: image.id,
    asset_identifier: image.assetIdentifier ?? video.assetIdentifier,
    paired_media_id: video.id,
  })
  return ours
}

async function findCounterpart(tx: Tx, half: Half): Promise<Half | undefined> {
  for (const lookup of lookupsOf(half)) {
    const found = await findUnpaired(tx, half, lookup)
    if (found) return found
  }
  return undefined
}
