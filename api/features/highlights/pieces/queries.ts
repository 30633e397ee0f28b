import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { type SQL, sql } from '../../../db/orm.ts'
import { mediaPieces } from '../../../db/schema/highlights.ts'
import { media } from '../../../db/schema/media.ts'
import { APP_NOW } from '../../../retention/clock.ts'
import { HELD_SECONDS, lockHolds } from '../../../retention/holds-queries.ts'
import { lease, postpone } from '../../../retention/leases-queries.ts'
import { constantTime, cutoffOf } from '../../../retention/policies-queries.ts'
import type { ClaimOptions, Due } from '../../../retention/target.ts'
import { isMediaHeld } from '../../media/deletion/purge-queries.ts'

export const PIECE_LEASES = { table: mediaPieces, id: mediaPieces.mediaId }
const DEFAULT = 'P30D'

/** Pieces of one source. */
export interface Pieces {
  mediaId: Uuid
  orgId: Uuid
  /** To the microsecond: they were used again if it is another. */
  usedAt: string
  bytes: number
}

export const dueBySweep = sql`${APP_NOW} - ${DEFAULT}::interval`
export const dueByRun = (due: Due): SQL => cutoffOf(due, 'PieceCache', DEFAULT)

const exactly = (time: SQL) => sql`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
const columns = sql`p.media_id as "mediaId", p.org_id as "orgId", ${exactly(sql`p.used_at`)} as "usedAt", p.bytes::float8 as bytes`
const isPieceHeld = sql<boolean>`exists (select from ${media} m where m.id = p.media_id and ${isMediaHeld})`

type Row = Pieces & { held: boolean } & Record<string, unknown>

/** Leases pieces that were used before this time. */
export const claimUnused = (tx: Tx, before: SQL, o: ClaimOptions) =>
  claim(tx, sql`p.used_at <= ${before} and p.lease_at <= now() order by p.used_at, p.lease_at limit ${o.limit}`, o)

/**
 * Leases pieces beyond the bounds, by their last use: those of an organization that has more than its own, and of all if there
 * are more. What was not used for longest goes first.
 */
export function claimExcess(tx: Tx, bounds: { organization: number; all: number }, o: ClaimOptions) {
  const newest = sql`order by used_at desc, media_id`
  const beyond = sql`select media_id from (
    select media_id, sum(bytes) over (partition by org_id ${newest}) as of_organization, sum(bytes) over (${newest}) as of_all
    from ${mediaPieces} where bytes > 0) kept
    where of_organization > ${bounds.organization} or of_all > ${bounds.all}`
  return claim(tx, sql`p.media_id in (${beyond}) and p.lease_at <= now() limit ${o.limit}`, o)
}

/** Whether a bound is exceeded: a look at the sums alone. */
export async function isBeyond(tx: Tx, bounds: { organization: number; all: number }): Promise<boolean> {
  const { rows } = await tx.execute<{ beyond: boolean }>(sql`
    select coalesce(max(bytes) > ${bounds.organization} or sum(bytes) > ${bounds.all}, false) as beyond
    from (select sum(bytes) as bytes from ${mediaPieces} group by org_id) sums`)
  return rows[0]?.beyond ?? false
}

async function claim(tx: Tx, which: SQL, o: ClaimOptions): Promise<{ items: Pieces[]; held: number }> {
  const { rows } = await tx.execute<Row>(sql`select ${columns}, ${isPieceHeld} as held from ${mediaPieces} p
    where ${which} for update of p skip locked`)
  const held = rows.filter((row) => row.held).map(({ mediaId }) => mediaId)
  const items = rows.filter((row) => !row.held)
  if (held.length > 0) await postpone(tx, PIECE_LEASES, held, { until: { seconds: HELD_SECONDS } })
  const ids = items.map(({ mediaId }) => mediaId)
  if (ids.length > 0) await lease(tx, PIECE_LEASES, ids, o)
  return { items, held: held.length }
}

/** `used`: a highlight has used the pieces since they were claimed. `lost`: the lease is another's. */
export type PieceState = 'free' | 'held' | 'used' | 'lost'

/** What there is to say against deleting claimed pieces. Locks the row and the holds with `lock`. */
export async function stateOf(tx: Tx, pieces: Pieces, o: { token: Uuid; lock: boolean }): Promise<PieceState> {
  if (o.lock) await lockHolds(tx)
  const { rows } = await tx.execute<{ held: boolean; used: boolean }>(sql`
    select ${isPieceHeld} as held, ${exactly(sql`p.used_at`)} <> ${pieces.usedAt} as used from ${mediaPieces} p
    where p.media_id = ${pieces.mediaId} and p.lease_token = ${o.token} ${o.lock ? sql`for update of p` : sql``}`)
  const [row] = rows
  if (!row) return 'lost'
  return row.held ? 'held' : row.used ? 'used' : 'free'
}

/** Call with the row locked. */
export const deletePieces = (tx: Tx, mediaId: Uuid) =>
  tx.delete(mediaPieces).where(sql`${mediaPieces.mediaId} = ${mediaId}`)

/** The pieces stay, and are measured anew: some of their objects may be gone. */
export const keepPieces = (tx: Tx, mediaId: Uuid, o: { seconds: number }) =>
  tx.execute(sql`update ${mediaPieces} set measured_at = null, lease_token = null,
    lease_at = now() + make_interval(secs => ${o.seconds}) where media_id = ${mediaId}`)

/** Leases pieces whose size is not known. */
export async function claimUnmeasured(tx: Tx, o: ClaimOptions): Promise<Pieces[]> {
  const { rows } = await tx.execute<Row>(sql`select ${columns}, false as held from ${mediaPieces} p
    where p.measured_at is null and p.lease_at <= now() order by p.lease_at limit ${o.limit} for update skip locked`)
  if (rows.length > 0)
    await lease(
      tx,
      PIECE_LEASES,
      rows.map(({ mediaId }) => mediaId),
      o,
    )
  return rows
}

/** Records the size, unless a highlight has begun or ended meanwhile: then the lease ends, and they are measured anew. */
export const recordSize = (tx: Tx, pieces: Pieces, o: { token: Uuid; bytes: number }) =>
  tx.execute(sql`update ${mediaPieces} p set lease_at = now(), lease_token = null, bytes = ${o.bytes},
    measured_at = case when ${exactly(sql`p.used_at`)} = ${pieces.usedAt} then now() end
    where p.media_id = ${pieces.mediaId} and p.lease_token = ${o.token}`)

export const countPieces = (tx: Tx): Promise<number> => tx.$count(mediaPieces)

export async function countDuePieces(tx: Tx, due: Due): Promise<{ due: number; held: number }> {
  const before = await constantTime(tx, dueByRun(due))
  const { rows } = await tx.execute<{ n: number; held: number }>(sql`
    select count(*)::float8 as n, (count(*) filter (where ${isPieceHeld}))::float8 as held from ${mediaPieces} p
    where p.used_at <= ${before}`)
  const { n, held } = rows[0] ?? { n: 0, held: 0 }
  return { due: n - held, held }
}

export async function listDuePieces(tx: Tx, due: Due, o: { after: string | undefined; limit: number }): Promise<Row[]> {
  const [at, id] = o.after?.split(' ') ?? []
  const { rows } = await tx.execute<Row>(sql`select ${columns}, ${isPieceHeld} as held from ${mediaPieces} p
    where p.used_at <= ${dueByRun(due)}
      ${at === undefined ? sql`` : sql`and (p.used_at, p.media_id) > (${at}::timestamptz, ${id}::uuid)`}
    order by p.used_at, p.media_id limit ${o.limit}`)
  return rows
}

/** Erasure: no one is charged for them any more. Returns how many. */
export async function disownPieces(tx: Tx, userId: Uuid): Promise<number> {
  const { rowCount } = await tx.execute(sql`update ${mediaPieces} set used_by = null where used_by = ${userId}`)
  return rowCount ?? 0
}
