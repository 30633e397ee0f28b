import type { Id, Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { sql } from '../db/orm.ts'

/** A refresh token that this server has passed on, or is asked about. Times in Unix seconds of the database's clock. */
export interface RefreshTokenRow {
  userId: Uuid | null
  sessionId: Id<'session'> | null
  refreshingUntil: number | null
  holder: Uuid | null
  usedAt: number | null
  /**
   * Encrypted, see `refresh-reply.ts`. Before the token is used: what the identity provider has answered and is not recorded
   * yet. Then: the answer that is given again.
   */
  reply: Buffer | null
  now: number
}

/**
 * One request asks the identity provider, which has half a minute for its answer, and keeps that for 45 seconds where the
 * database is away: nothing could renew the lease then. A process that dies meanwhile holds the others up for so long.
 */
const LEASE_SECONDS = 90

/** Of a token that is not known: until then its answer is here, or it was refused. */
const UNKNOWN_FOR = sql`interval '1 hour'`

/** Takes the token for one request to the identity provider. False while another has it, and once it was used. */
export async function claimRefreshToken(tx: Tx, hash: Buffer, holder: Uuid): Promise<boolean> {
  const { rowCount } = await tx.execute(sql`
    insert into refresh_tokens as r (hash, refreshing_until, holder, expires_at)
      values (${hash}, now() + make_interval(secs => ${LEASE_SECONDS}), ${holder}::uuid, now() + ${UNKNOWN_FOR})
      on conflict (hash) do update set refreshing_until = excluded.refreshing_until, holder = excluded.holder
        where r.used_at is null and (r.refreshing_until is null or r.refreshing_until <= now())`)
  return rowCount === 1
}

export async function findRefreshToken(tx: Tx, hash: Buffer, lock = false): Promise<RefreshTokenRow | undefined> {
  const { rows } = await tx.execute<RefreshTokenRow & Record<string, unknown>>(sql`
    select user_id as "userId", session_id as "sessionId", holder, reply,
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
        refreshing_until = null, holder = null, reply = null, expires_at = excluded.expires_at`)
}

/**
 * Keeps what the identity provider has answered, which has used the token up: also where another request holds the token
 * by now. Of two answers it keeps the first one. `seconds`: for how long it is of use. The client may come late for it.
 */
export async function keepAnswer(tx: Tx, hash: Buffer, answer: Buffer, seconds: number): Promise<void> {
  await tx.execute(sql`
    insert into refresh_tokens as r (hash, reply, expires_at)
      values (${hash}, ${answer}, now() + make_interval(secs => ${seconds}))
      on conflict (hash) do update set reply = excluded.reply, expires_at = greatest(r.expires_at, excluded.expires_at)
        where r.used_at is null and r.reply is null`)
}

/** The kept answer is of no use any more: its access token has expired. */
export async function replaceAnswer(tx: Tx, hash: Buffer, answer: Buffer, seconds: number): Promise<void> {
  await tx.execute(sql`
    update refresh_tokens set reply = ${answer}, expires_at = greatest(expires_at, now() + make_interval(secs => ${seconds}))
      where hash = ${hash} and used_at is null`)
}

/**
 * The token is used up. Its answer is given again for a while, to who has the token. `seconds`: for how long it has to be
 * known, so that a later use of it is noticed.
 */
export async function useRefreshToken(
  tx: Tx,
  hash: Buffer,
  o: Partial<Owner>,
  reply: Buffer | null,
  seconds?: number,
): Promise<void> {
  await tx.execute(sql`
    update refresh_tokens set used_at = clock_timestamp(), refreshing_until = null, holder = null, reply = ${reply},
        user_id = coalesce(user_id, ${o.userId ?? null}::uuid), session_id = coalesce(session_id, ${o.sessionId ?? null}::uuid),
        expires_at = coalesce(now() + make_interval(secs => ${seconds ?? null}::float8), expires_at)
      where hash = ${hash}`)
}

/** The request has failed without an answer about the token, or could not record it. Others may hold it by now. */
export async function releaseRefreshToken(tx: Tx, hash: Buffer, holder: Uuid): Promise<void> {
  const mine = sql`hash = ${hash} and holder = ${holder}::uuid and used_at is null`
  await tx.execute(sql`delete from refresh_tokens where ${mine} and session_id is null and reply is null`)
  await tx.execute(sql`update refresh_tokens set refreshing_until = null, holder = null where ${mine}`)
}

/** Whether the session of a refresh token has ended, or is gone. `lock`: it ends before that is said, or after this transaction. */
export async function isSessionOver(tx: Tx, { userId, sessionId }: Owner, lock = false): Promise<boolean> {
  const { rows } = await tx.execute<{ lasts: boolean }>(sql`
    select (s.ended_at is null or s.first_seen_at > s.ended_at)
        and (s.first_seen_at >= u.tokens_not_before or coalesce(s.spared_until >= u.tokens_not_before, false)) as lasts
      from sessions s join users u on u.id = s.user_id where s.user_id = ${userId}::uuid and s.id = ${sessionId}::uuid ${lock ? sql`for no key update of s` : sql``}`)
  return rows[0]?.lasts !== true
}

/** Forgets answers that are not given again. Returns how many; call again while it returns `batch`. */
export async function forgetAnswers(tx: Tx, batch: number): Promise<number> {
  const { rowCount } = await tx.execute(sql`update refresh_tokens set reply = null where ctid = any(array(
    select ctid from refresh_tokens where reply is not null and used_at < now() - interval '3 minutes' limit ${batch}))`)
  return rowCount ?? 0
}

/** Deletes tokens that have expired. Returns how many; call again while it returns `batch`. */
export async function deleteOldRefreshTokens(tx: Tx, batch: number): Promise<number> {
  const { rowCount } = await tx.execute(sql`delete from refresh_tokens where ctid = any(array(
    select ctid from refresh_tokens where expires_at < now() limit ${batch}))`)
  return rowCount ?? 0
}
