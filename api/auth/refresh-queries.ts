import type { Id, Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { sql } from '../db/orm.ts'

/** A refresh token that this server has passed on, or is asked about. Times in Unix seconds of the database's clock. */
export interface RefreshTokenRow {
  userId: Uuid | null
  sessionId: Id<'session'> | null
  refreshingUntil: number | null
  usedAt: number | null
  /** Encrypted, see `refresh-reply.ts`. */
  reply: Buffer | null
  now: number
}

/** One request asks the identity provider; a process that dies meanwhile holds the others up for so long. */
const LEASE_SECONDS = 15

/** Of a token that is not known: until then its answer is here, or it was refused. */
const UNKNOWN_FOR = sql`interval '1 hour'`

/** Takes the token for one request to the identity provider. Undefined while another has it, and once it was used. */
export async function claimRefreshToken(tx: Tx, hash: Buffer): Promise<boolean> {
  const { rowCount } = await tx.execute(sql`
    insert into refresh_tokens as r (hash, refreshing_until, expires_at)
      values (${hash}, now() + make_interval(secs => ${LEASE_SECONDS}), now() + ${UNKNOWN_FOR})
      on conflict (hash) do update set refreshing_until = excluded.refreshing_until
        where r.used_at is null and (r.refreshing_until is null or r.refreshing_until <= now())`)
  return rowCount === 1
}

export async function findRefreshToken(tx: Tx, hash: Buffer, lock = false): Promise<RefreshTokenRow | undefined> {
  const { rows } = await tx.execute<RefreshTokenRow & Record<string, unknown>>(sql`
    select user_id as "userId", session_id as "sessionId", reply,
        extract(epoch from refreshing_until)::float8 as "refreshingUntil",
        extract(epoch from used_at)::float8 as "usedAt", extract(epoch from clock_timestamp())::float8 as now
      from refresh_tokens where hash = ${hash} ${lock ? sql`for update` : sql``}`)
  return rows[0]
}

export interface Owner {
  userId: Uuid
  sessionId: Uuid
}

/** A token that the identity provider has issued for this session. `seconds`: until it expires there. */
export async function saveRefreshToken(tx: Tx, hash: Buffer, o: Owner, seconds: number): Promise<void> {
  await tx.execute(sql`
    insert into refresh_tokens (hash, user_id, session_id, expires_at)
      values (${hash}, ${o.userId}::uuid, ${o.sessionId}::uuid, now() + make_interval(secs => ${seconds}))
      on conflict (hash) do update set user_id = excluded.user_id, session_id = excluded.session_id,
        refreshing_until = null, expires_at = excluded.expires_at`)
}

/** The token is used up. Its answer is given again for a while, to who has the token. */
export async function useRefreshToken(tx: Tx, hash: Buffer, o: Partial<Owner>, reply: Buffer | null): Promise<void> {
  await tx.execute(sql`
    update refresh_tokens set used_at = clock_timestamp(), refreshing_until = null, reply = ${reply},
        user_id = coalesce(user_id, ${o.userId ?? null}::uuid), session_id = coalesce(session_id, ${o.sessionId ?? null}::uuid)
      where hash = ${hash}`)
}

/** The request has failed without an answer about the token. */
export async function releaseRefreshToken(tx: Tx, hash: Buffer): Promise<void> {
  await tx.execute(sql`delete from refresh_tokens where hash = ${hash} and session_id is null and used_at is null`)
  await tx.execute(sql`update refresh_tokens set refreshing_until = null where hash = ${hash} and used_at is null`)
}

/** Whether the session of a refresh token has ended, or is gone. */
export async function isSessionOver(tx: Tx, { userId, sessionId }: Owner): Promise<boolean> {
  const { rows } = await tx.execute<{ lasts: boolean }>(sql`
    select (s.ended_at is null or s.first_seen_at > s.ended_at)
        and (s.first_seen_at >= u.tokens_not_before or coalesce(s.spared_until >= u.tokens_not_before, false)) as lasts
      from sessions s join users u on u.id = s.user_id where s.user_id = ${userId}::uuid and s.id = ${sessionId}::uuid`)
  return rows[0]?.lasts !== true
}

/** Deletes tokens that have expired. Returns how many; call again while it returns `batch`. */
export async function deleteOldRefreshTokens(tx: Tx, batch: number): Promise<number> {
  const { rowCount } = await tx.execute(sql`delete from refresh_tokens where ctid = any(array(
    select ctid from refresh_tokens where expires_at < now() limit ${batch}))`)
  return rowCount ?? 0
}
