import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { piecesPrefix } from '../../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../../lib/runtime/failpoint.ts'
import type { Log } from '../../../../lib/runtime/log.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import type { Database, Tx } from '../../../db/db.ts'
import { HELD_SECONDS } from '../../../retention/holds-queries.ts'
import type { Outcome, RetentionTarget } from '../../../retention/target.ts'
import {
  claimExcess,
  claimUnmeasured,
  claimUnused,
  countDuePieces,
  countPieces,
  deletePieces,
  dueByRun,
  dueBySweep,
  isBeyond,
  keepPieces,
  listDuePieces,
  PIECE_LEASES,
  type Pieces,
  recordSize,
  stateOf,
} from './queries.ts'

interface Deps {
  db: Database
  store: ObjectStore
  log: Log
}

const BATCH = 100
const LEASE_SECONDS = 600

/** Pieces that no highlight has used for a while. A later highlight makes them again. */
export const unusedPieces: RetentionTarget<Pieces> = {
  name: 'PieceCache',
  leases: PIECE_LEASES,
  few: 1000,
  total: countPieces,
  countDue: countDuePieces,
  claim: (tx, due, o) => claimUnused(tx, dueByRun(due), o),
  about: ({ mediaId }) => ({ rows: [mediaId], id: formatId('media', mediaId) }),
  async handle({ db, store, pace, count }, pieces, { token }) {
    const bytes = await sizeOf(store, pieces)
    await pace(bytes)
    return purgePieces({ db, store }, pieces, token, (tx) => count(tx, { purged: 1, bytes }))
  },
  async list(tx, due, o) {
    const rows = await listDuePieces(tx, due, o)
    const last = rows.at(-1)
    return {
      lines: rows.map(({ mediaId, usedAt, bytes, held }) => ({
        ...{ id: formatId('media', mediaId), action: 'purge', since: usedAt, bytes, held },
      })),
      last: last ? `${last.usedAt} ${last.mediaId}` : '',
    }
  },
}

async function sizeOf(store: ObjectStore, { orgId, mediaId }: Pieces): Promise<number> {
  let bytes = 0
  for await (const { size } of store.list(piecesPrefix(orgId, mediaId))) bytes += size
  return bytes
}

/** Deletes pieces of one source. A highlight that uses them at the same time makes those that it misses. */
async function purgePieces(
  { db, store }: Pick<Deps, 'db' | 'store'>,
  pieces: Pieces,
  token: Uuid,
  record: (tx: Tx) => Promise<void> = async () => {},
): Promise<Outcome> {
  const seen = await db.read({}, (tx) => stateOf(tx, pieces, { token, lock: false }))
  if (seen === 'free') await store.deletePrefix(piecesPrefix(pieces.orgId, pieces.mediaId))
  failpoint('pieces.emptied')
  const outcome = await db.inTransaction({}, async (tx): Promise<Outcome> => {
    const state = await stateOf(tx, pieces, { token, lock: true })
    if (state === 'lost') return 'lost'
    if (state === 'free' && seen === 'free') {
      await deletePieces(tx, pieces.mediaId)
      await record(tx)
      return 'done'
    }
    await keepPieces(tx, pieces.mediaId, { seconds: state === 'held' ? HELD_SECONDS : 0 })
    return state === 'held' ? 'held' : 'lost'
  })
  failpoint('pieces.committed')
  return outcome
}

export interface PieceBounds {
  /** Bytes that the pieces of one organization may have. */
  organization: number
  all: number
}

/** Housekeeping: measures pieces of which a highlight was made since. Returns of how many sources. */
export async function measurePieces(deps: Deps, signal: AbortSignal): Promise<number> {
  for (let measured = 0; ; ) {
    const token = newUuid()
    const some = await deps.db.inTransaction({}, (tx) =>
      claimUnmeasured(tx, { limit: BATCH, seconds: LEASE_SECONDS, token }),
    )
    for (const pieces of some) {
      if (signal.aborted) return measured
      const bytes = await sizeOf(deps.store, pieces)
      await deps.db.inTransaction({}, (tx) => recordSize(tx, pieces, { token, bytes }))
      measured += 1
    }
    if (some.length < BATCH) return measured
  }
}

/** Housekeeping: deletes pieces beyond the bounds, whether or not a policy deletes old ones. Returns of how many sources. */
export async function boundPieces(deps: Deps, bounds: PieceBounds, signal: AbortSignal): Promise<number> {
  if (!(await deps.db.read({}, (tx) => isBeyond(tx, bounds)))) return 0
  return purgeClaimed(deps, (tx, o) => claimExcess(tx, bounds, o), signal)
}

/** Housekeeping without a policy: deletes pieces that were not used for 30 days. Returns of how many sources. */
export const purgeUnused = (deps: Deps, signal: AbortSignal): Promise<number> =>
  purgeClaimed(deps, (tx, o) => claimUnused(tx, dueBySweep, o), signal)

async function purgeClaimed(
  { db, store, log }: Deps,
  claim: (tx: Tx, o: { limit: number; seconds: number; token: Uuid }) => ReturnType<typeof claimUnused>,
  signal: AbortSignal,
): Promise<number> {
  for (let purged = 0; ; ) {
    const token = newUuid()
    const { items, held } = await db.inTransaction({}, (tx) =>
      claim(tx, { limit: BATCH, seconds: LEASE_SECONDS, token }),
    )
    if (items.length + held === 0) return purged
    for (const pieces of items) {
      if (signal.aborted) return purged
      const outcome = await purgePieces({ db, store }, pieces, token).catch((error: unknown) => {
        log.warn({ err: error, media: pieces.mediaId }, 'could not delete pieces of a highlight; trying again later')
      })
      if (outcome === 'done') purged += 1
    }
  }
}
