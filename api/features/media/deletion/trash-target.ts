import { formatId, type Uuid } from '../../../../lib/contract/ids.ts'
import { mediaPrefix } from '../../../../lib/contract/object-keys.ts'
import type { RetentionTarget } from '../../../retention/target.ts'
import { purgeGroup } from './purge.ts'
import { claimDueOf, findClaimed, isDueMedia, listDueMedia, MEDIA_LEASES, TRASH } from './purge-queries.ts'

/** One media item or both halves of a Live Photo, the image first. */
interface Trashed {
  ids: Uuid[]
}

/**
 * The trash, as policies purge it. It asks no cluster: a conversion ends with the deletion of its media item, at least 24 hours
 * before, and what a late pod writes is found by the later looks of the worker.
 */
export const mediaTrash: RetentionTarget<Trashed> = {
  ...TRASH,
  leases: MEDIA_LEASES,
  // Purges of events and of persons lease media items, too.
  isDue: isDueMedia,
  async claim(tx, due, o) {
    const { groups, held } = await claimDueOf(tx, due, o)
    return { items: groups.map((ids) => ({ ids })), held }
  },
  about: ({ ids }) => ({ rows: ids, id: formatId('media', ids[0] as Uuid) }),
  async handle({ db, store, pace, count }, { ids }, { token, due }) {
    const claimed = { ids, token, due }
    let bytes = 0
    for (const { id, orgId } of await db.read({}, (tx) => findClaimed(tx, claimed))) {
      for await (const { size } of store.list(mediaPrefix(orgId, id))) bytes += size
    }
    await pace(bytes)
    const { purged, isHeld } = await purgeGroup({ db, store }, claimed, (tx, rows) =>
      count(tx, { purged: rows, bytes }),
    )
    if (isHeld) return 'held'
    return purged > 0 ? 'done' : 'lost'
  },
  async list(tx, due, o) {
    const { lines, last } = await listDueMedia(tx, due, o)
    return { lines: lines.map((line) => ({ ...line, id: formatId('media', line.id), action: 'purge' })), last }
  },
}
