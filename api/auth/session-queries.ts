import { type Id, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { and, desc, eq, isNotNull, type SQL, sql } from '../db/orm.ts'
import { devices } from '../db/schema/devices.ts'
import { sessions } from '../db/schema/sessions.ts'
import { users } from '../db/schema/users.ts'

/** Where and with what a person is signed in. Personal data: it goes when the sign-in ends. */
export interface SignInDetails {
  deviceId?: string | undefined
  deviceName?: string | undefined
  ip?: string | undefined
}

export interface SeenSignIn extends SignInDetails {
  userId: Uuid
  /** `signInOf`. */
  signIn: string
  /** Unix seconds: `auth_time`, or else when the token was issued. */
  since: number
  authTime: number | undefined
  logoutSid: string | null
  /** The server saw the user sign in, just now. */
  isWitnessed?: boolean
  /** False where the identity provider tells of it, and no token has come here. */
  isUsed?: boolean
  /** Whether access tokens name nothing, so that only refresh tokens lead here; undefined where it is not known. */
  byRefresh?: boolean
  /** Seconds until its refresh token ends; null where the provider does not say it, undefined where there is no new one. */
  refreshFor?: number | null | undefined
}

const inSeconds = (seconds: number | null | undefined): SQL | null =>
  seconds === null || seconds === undefined ? null : sql`now() + make_interval(secs => ${seconds})`

/**
 * Records a token of this sign-in, which is as old as the oldest of its tokens that was ever seen. One that ended stays
 * as it is, unless the user has signed in again under its name: that is a new session.
 */
export async function upsertSession(tx: Tx, o: SeenSignIn): Promise<Id<'session'>> {
  const isWitnessed = o.isWitnessed === true
  const ip = o.ip || null
  const values = {
    userId: o.userId,
    sid: o.signIn,
    id: newUuid(),
    // Not later than now, even if the provider's clock is ahead: a later sign-out must find the sign-in older.
    firstSeenAt: isWitnessed ? sql`now()` : sql`least(now(), to_timestamp(${o.since}))`,
    authTime: o.authTime ?? null,
    witnessed: isWitnessed,
    byRefresh: o.byRefresh === true,
    logoutSid: o.logoutSid,
    deviceId: o.deviceId ?? null,
    deviceName: o.deviceName ?? null,
    ipAddress: ip,
    hasDetails: Boolean(o.deviceId ?? o.deviceName ?? ip),
    lastUsedAt: o.isUsed === false ? null : sql`now()`,
    refreshUntil: inSeconds(o.refreshFor),
  }
  const isAnother = sql`(coalesce(excluded.auth_time, -1) > coalesce(${sessions.authTime}, -1))`
  const isEnded = sql`(${sessions.endedAt} is not null and ${sessions.firstSeenAt} <= ${sessions.endedAt})`
  // As `isEnded` of policy.ts decides, so that what was refused does not come back.
  const begins = sql`(${isEnded} and ${isAnother} and excluded.auth_time > coalesce(${sessions.endedAuthTime}, -1)
    and (excluded.witnessed or to_timestamp(excluded.auth_time) > ${sessions.endedAt}))`
  const isOver = sql`(${isEnded} and not ${begins})`
  const lasting = (column: unknown, given: unknown) =>
    sql`case when ${isOver} then null when ${begins} then ${given} else coalesce(${given}, ${column}) end`
  const [row] = await tx
    .insert(sessions)
    .values(values)
    .onConflictDoUpdate({
      target: [sessions.userId, sessions.sid],
      set: {
        id: sql`case when ${begins} then excluded.id else coalesce(${sessions.id}, excluded.id) end`,
        firstSeenAt: sql`case when ${isAnother} and not ${isOver} then excluded.first_seen_at
          when ${sessions.witnessed} then ${sessions.firstSeenAt}
          else least(${sessions.firstSeenAt}, excluded.first_seen_at) end`,
        witnessed: sql`case when ${isAnother} and not ${isOver} then excluded.witnessed else ${sessions.witnessed} end`,
        authTime: sql`case when ${isOver} then ${sessions.authTime}
          else greatest(${sessions.authTime}, excluded.auth_time) end`,
        ...(o.byRefresh !== undefined && { byRefresh: o.byRefresh }),
        logoutSid: sql`coalesce(excluded.logout_sid, ${sessions.logoutSid})`,
        deviceId: lasting(sessions.deviceId, sql`excluded.device_id`),
        deviceName: lasting(sessions.deviceName, sql`excluded.device_name`),
        ipAddress: lasting(sessions.ipAddress, sql`excluded.ip_address`),
        hasDetails: sql`not ${isOver} and (${sessions.hasDetails} or excluded.has_details)`,
        lastSeenAt: sql`now()`,
        ...(o.isUsed !== false && { lastUsedAt: sql`now()` }),
        refreshUntil: o.refreshFor === null ? null : lasting(sessions.refreshUntil, sql`excluded.refresh_until`),
      },
    })
    .returning({ id: sessions.id })
  return row?.id ?? values.id
}

/** A sign-in that only its refresh tokens lead to. */
export async function insertSessionByRefresh(
  tx: Tx,
  o: Omit<SeenSignIn, 'signIn' | 'since' | 'authTime'>,
): Promise<Id<'session'>> {
  const id = newUuid()
  const ip = o.ip || null
  await tx.insert(sessions).values({
    userId: o.userId,
    // No token names it: no claim is as long as to hold this by chance.
    sid: `refresh ${id}`,
    id,
    byRefresh: true,
    witnessed: true,
    firstSeenAt: sql`now()`,
    logoutSid: o.logoutSid,
    deviceId: o.deviceId ?? null,
    deviceName: o.deviceName ?? null,
    ipAddress: ip,
    hasDetails: Boolean(o.deviceId ?? o.deviceName ?? ip),
    lastUsedAt: sql`now()`,
    refreshUntil: inSeconds(o.refreshFor),
  })
  return id
}

/** What a refresh says of the session: it lasts as long as its new refresh token. `last_seen_at` moves once a day. One that has ended meanwhile keeps no address. */
export async function renewSession(
  tx: Tx,
  o: { userId: Uuid; sessionId: Uuid; ip: string; refreshFor: number | null },
): Promise<void> {
  const ip = o.ip || null
  await tx.execute(sql`
    update sessions set refresh_until = ${inSeconds(o.refreshFor)}, last_used_at = now(),
        last_seen_at = case when last_seen_at < now() - interval '1 day' then now() else last_seen_at end,
        ip_address = coalesce(${ip}, ip_address), has_details = has_details or ${ip}::text is not null
      where user_id = ${o.userId}::uuid and id = ${o.sessionId}::uuid
        and (ended_at is null or first_seen_at > ended_at)`)
}

const isLive = sql<boolean>`(${sessions.endedAt} is null or ${sessions.firstSeenAt} > ${sessions.endedAt})`

export interface SessionRow {
  id: Id<'session'> | null
  deviceName: string | null
  ipAddress: string | null
  createdAt: Date
  lastUsedAt: Date | null
  lastSeenAt: Date
}

/** Sessions of which nothing was seen for so long have lapsed: most providers end them sooner. */
const LISTED = sql`interval '30 days'`

/**
 * A session whose refresh token has ended has lapsed as well, unless it was used since or not long before: the client may
 * have refreshed at the identity provider itself. One that is hidden too late does no harm, one that is hidden too soon
 * cannot be ended.
 */
const USED = sql`interval '7 days'`
const lastUse = sql`coalesce(${sessions.lastUsedAt}, ${sessions.lastSeenAt})`

/** Of a session and its user: whether it may still be used. */
const isUsable = and(
  isLive,
  sql`(${sessions.firstSeenAt} >= ${users.tokensNotBefore} or ${sessions.sparedUntil} >= ${users.tokensNotBefore})`,
  sql`${sessions.lastSeenAt} > now() - ${LISTED}`,
  sql`(coalesce(${sessions.refreshUntil} > now(), true) or ${lastUse} > now() - ${USED})`,
)

/** Of a device of the user: whether a session has registered it that has lapsed. Earlier versions named sessions by their `sid`. */
const isOfLapsed = (userId: Uuid, which = sql`true`) => sql`${devices.userId} = ${userId} and ${devices.sessionId} in (
  select unnest(array[${sessions.id}::text, ${sessions.sid}])
    from ${sessions} join ${users} on ${users.id} = ${sessions.userId}
    where ${sessions.userId} = ${userId} and (${isUsable}) is not true and ${which})`

/**
 * What sessions have registered that lapsed on this device is the new session's: an app that signs in again need not
 * register again, and its sign-out reaches the device. `deviceId`: what the device calls itself, so that two may be alike;
 * only one of a session that has lapsed has to sign in.
 */
export async function takeOverDevices(
  tx: Tx,
  { userId, sessionId, deviceId }: { userId: Uuid; sessionId: Uuid; deviceId: string },
): Promise<void> {
  const isAlike = sql`${sessions.deviceId} = ${deviceId} and ${sessions.id} is distinct from ${sessionId}`
  await tx.update(devices).set({ sessionId, registeredAt: sql`now()` }).where(isOfLapsed(userId, isAlike))
}

/** The sessions of a user that may still be used, the one used last first. */
export const listSessions = (tx: Tx, userId: Uuid, limit: number): Promise<SessionRow[]> =>
  tx
    .select({
      id: sessions.id,
      deviceName: sessions.deviceName,
      ipAddress: sessions.ipAddress,
      createdAt: sessions.firstSeenAt,
      lastUsedAt: sessions.lastUsedAt,
      lastSeenAt: sessions.lastSeenAt,
    })
    .from(sessions)
    .innerJoin(users, eq(users.id, sessions.userId))
    .where(and(eq(sessions.userId, userId), isNotNull(sessions.id), isUsable))
    .orderBy(desc(lastUse), desc(sessions.id))
    .limit(limit)

/** Waits for what ends sign-ins of this user, or gives something to one, meanwhile. */
export async function lockUser(tx: Tx, userId: Uuid): Promise<void> {
  await tx.select({ id: users.id }).from(users).where(eq(users.id, userId)).for('no key update')
}

export interface FoundSession {
  id: Id<'session'>
  isLive: boolean
  byRefresh: boolean
}

export async function findSession(tx: Tx, userId: Uuid, id: Uuid): Promise<FoundSession | undefined> {
  const [row] = await tx
    .select({ isLive, byRefresh: sessions.byRefresh })
    .from(sessions)
    .where(and(eq(sessions.userId, userId), eq(sessions.id, id)))
  return row && { ...row, id }
}

/** What is left of a session that has ended at this time. Rows of earlier versions get their id here. */
const ended = (at: SQL) => ({
  id: sql`coalesce(${sessions.id}, gen_random_uuid())`,
  endedAt: sql`greatest(${at}, ${sessions.firstSeenAt})`,
  endedAuthTime: sql`greatest(${sessions.endedAuthTime}, ${sessions.authTime})`,
  deviceId: null,
  deviceName: null,
  ipAddress: null,
  hasDetails: false,
})

/** Ends those of these sessions that last. Triggers tell the other replicas, and drop the devices of the sessions. */
async function endWhere(tx: Tx, userId: Uuid, which: SQL, at = sql`now()`): Promise<Id<'session'>[]> {
  const mine = and(eq(sessions.userId, userId), which, isLive)
  const rows = await tx
    .update(sessions)
    .set(ended(at))
    .where(mine)
    .returning({ id: sessions.id, since: sql<string>`${sessions.firstSeenAt}::text` })
  // The phone that signs out may have registered by a session that lapsed before this one began. What was used since then is
  // another phone.
  for (const { since } of rows) {
    await tx.delete(devices).where(isOfLapsed(userId, sql`${lastUse} < ${since}::timestamptz`))
  }
  return rows.flatMap(({ id }) => id ?? [])
}

export const endSession = (tx: Tx, userId: Uuid, id: Uuid): Promise<Id<'session'>[]> =>
  endWhere(tx, userId, eq(sessions.id, id))

const isCalled = (signIn: string, sid: string | null) =>
  sid === null ? eq(sessions.sid, signIn) : sql`(${sessions.logoutSid} = ${sid} or ${sessions.sid} = ${sid})`

/** Ends the sessions of this name, or that the identity provider calls by this `sid`. */
export const endNamedSessions = (
  tx: Tx,
  userId: Uuid,
  { signIn, sid }: { signIn: string; sid: string | null },
): Promise<Id<'session'>[]> => endWhere(tx, userId, isCalled(signIn, sid))

/**
 * Whether access tokens of any session of the user have named a `sid`. One that only an ID token or the webhook has named
 * leads to no access token. `signInOf` prefers the `sid`, so a token that has one calls its session by it.
 */
export async function hasSid(tx: Tx, userId: Uuid): Promise<boolean> {
  const isOfTokens = and(eq(sessions.logoutSid, sessions.sid), eq(sessions.byRefresh, false))
  const named = and(eq(sessions.userId, userId), isOfTokens, isNotNull(sessions.lastUsedAt))
  return (await tx.select({ id: sessions.id }).from(sessions).where(named).limit(1)).length > 0
}

/** A sign-in whose end is known before its first token. Undefined for one that is known. */
export async function insertEndedSession(
  tx: Tx,
  o: { userId: Uuid; signIn: string; sid: string | null; authTime: number | undefined },
): Promise<Id<'session'> | undefined> {
  const named = and(eq(sessions.userId, o.userId), isCalled(o.signIn, o.sid))
  if ((await tx.select({ id: sessions.id }).from(sessions).where(named).limit(1)).length > 0) return undefined
  const authTime = o.authTime ?? null
  const rows = await tx
    .insert(sessions)
    .values({
      ...{ userId: o.userId, sid: o.signIn, id: newUuid(), authTime, endedAuthTime: authTime },
      // No token has named it: `logout_sid` stays empty, see `hasSid`.
      firstSeenAt: sql`now()`,
      endedAt: sql`now()`,
    })
    .onConflictDoNothing()
    .returning({ id: sessions.id })
  return rows[0]?.id ?? undefined
}

/** The users with a session that the identity provider calls by this `sid`. */
export const listUsersOfSid = (tx: Tx, sid: string): Promise<{ userId: Uuid }[]> =>
  tx.selectDistinct({ userId: sessions.userId }).from(sessions).where(eq(sessions.logoutSid, sid))

/**
 * Ends all sign-ins of the user but this one, also those of which no token was seen here. Returns the sessions that were
 * known.
 */
export async function endOtherSignIns(tx: Tx, userId: Uuid, own: Uuid): Promise<Id<'session'>[]> {
  const at = await nextSignOut(tx, userId)
  const others = await endWhere(tx, userId, sql`${sessions.id} is distinct from ${own}::uuid`)
  const isOwn = and(eq(sessions.userId, userId), eq(sessions.id, own))
  await tx.update(sessions).set({ sparedUntil: at }).where(isOwn)
  await setSignOut(tx, userId, at)
  return others
}

/**
 * From now on every token of an earlier sign-in is refused, including tokens that its session is refreshed to. With `before`
 * sign-ins that began later go on.
 */
export async function endSignIns(tx: Tx, userId: Uuid, before?: Date): Promise<void> {
  const at = await nextSignOut(tx, userId, before)
  await setSignOut(tx, userId, at)
  if (before === undefined) return
  // What a later sign-out on all other devices has spared. A sign-in after `before` under the name of such a session goes on.
  const until = sql`least(${at}, ${before.toISOString()}::timestamptz)`
  await endWhere(tx, userId, sql`${sessions.firstSeenAt} <= ${until}`, until)
}

/**
 * The time of a sign-out. `now()` would be that of the beginning of the transaction: of two at once the one that waits for
 * the other would be the earlier one, and a session that the other one spared would survive it. So the time is taken
 * behind the lock, and is later than that of every sign-out before. With `before` it may be that of an earlier sign-out,
 * which has ended everything but the session that it spared.
 */
async function nextSignOut(tx: Tx, userId: Uuid, before?: Date): Promise<SQL> {
  await lockUser(tx, userId)
  const last = users.tokensNotBefore
  const next = sql`greatest(${last} + interval '1 microsecond', clock_timestamp())`
  const limit = before?.toISOString()
  const at = limit === undefined ? next : sql`greatest(${last}, least(${next}, ${limit}::timestamptz))`
  const [row] = await tx
    .select({ at: sql<string>`(${at})::text` })
    .from(users)
    .where(eq(users.id, userId))
  // As text: a Date has no microseconds.
  return sql`${row?.at ?? null}::timestamptz`
}

async function setSignOut(tx: Tx, userId: Uuid, at: SQL): Promise<void> {
  await tx.update(users).set({ tokensNotBefore: at, updatedAt: sql`now()` }).where(eq(users.id, userId))
}

/**
 * For the erasure of a person: ends all sign-ins, and removes what is known of them. Tokens that are valid until then are
 * refused by the time of the sign-out alone; the caller must also refuse the person's next sign-in.
 */
export async function eraseSessions(tx: Tx, userId: Uuid): Promise<void> {
  // A refresh locks its token before its session.
  await tx.execute(sql`delete from refresh_tokens where user_id = ${userId}::uuid`)
  await endSignIns(tx, userId)
  await tx.delete(sessions).where(eq(sessions.userId, userId))
}

export interface LastUse {
  userId: Uuid
  id: Uuid
  ip: string
}

/** Never waits: what another transaction holds is written the next time. */
export async function saveLastUses(tx: Tx, uses: readonly LastUse[]): Promise<void> {
  const of = <K extends keyof LastUse>(key: K) => sql.param(uses.map((use) => use[key]))
  await tx.execute(sql`
    with given as (
      select * from unnest(${of('userId')}::uuid[], ${of('id')}::uuid[], ${of('ip')}::text[]) g (user_id, id, ip)
    ), found as (
      select s.user_id, s.sid, nullif(g.ip, '') as ip from sessions s join given g on s.user_id = g.user_id and s.id = g.id
      where s.ended_at is null or s.first_seen_at > s.ended_at
      for update of s skip locked
    )
    update sessions s set last_used_at = now(), ip_address = coalesce(f.ip, s.ip_address),
        has_details = s.has_details or f.ip is not null,
        last_seen_at = case when s.last_seen_at < now() - interval '1 day' then now() else s.last_seen_at end
      from found f where s.user_id = f.user_id and s.sid = f.sid`)
}

/**
 * Deletes sessions without a token for 400 days: their refresh tokens must have expired by then, or a session that a
 * sign-out has ended would reappear as a new one. Returns how many; call again while it returns `batch`.
 */
export async function deleteOldSessions(tx: Tx, batch: number): Promise<number> {
  const old = sql`select ctid from ${sessions} where ${sessions.lastSeenAt} < now() - interval '400 days' limit ${batch}`
  const { rowCount } = await tx.execute(sql`delete from ${sessions} where ctid = any(array(${old}))`)
  return rowCount ?? 0
}

/** Forgets devices and addresses of sessions that have lapsed. Returns how many, as `deleteOldSessions` does. */
export async function forgetLapsedDetails(tx: Tx, batch: number): Promise<number> {
  const { rowCount } = await tx.execute(sql`
    update sessions set device_id = null, device_name = null, ip_address = null, has_details = false
      where ctid = any(array(select ctid from sessions where has_details
        and last_seen_at < now() - interval '31 days' limit ${batch}))`)
  return rowCount ?? 0
}
