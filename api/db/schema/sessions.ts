import { bigint, boolean, pgTable, primaryKey, text, uuid } from '../orm.ts'
import { bytea, id, time, transactionId } from './columns.ts'

export const sessions = pgTable(
  'sessions',
  {
    userId: id('user').notNull(),
    /** `signInOf` in api/auth/policy.ts. */
    sid: text().notNull(),
    id: id('session'),
    firstSeenAt: time().notNull(),
    lastSeenAt: time().notNull().defaultNow(),
    authTime: bigint({ mode: 'number' }),
    witnessed: boolean().notNull().default(false),
    byRefresh: boolean().notNull().default(false),
    logoutSid: text(),
    deviceId: text(),
    deviceName: text(),
    ipAddress: text(),
    hasDetails: boolean().notNull().default(false),
    lastUsedAt: time(),
    refreshUntil: time(),
    endedAt: time(),
    endedAuthTime: bigint({ mode: 'number' }),
    sparedUntil: time(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.sid] })],
)

/** Written by triggers. */
export const revocations = pgTable('revocations', {
  txid: transactionId().notNull(),
  userId: id('user').notNull(),
  at: time().notNull(),
})

export const refreshTokens = pgTable('refresh_tokens', {
  hash: bytea().primaryKey(),
  userId: id('user'),
  sessionId: id('session'),
  refreshingUntil: time(),
  holder: uuid(),
  usedAt: time(),
  reply: bytea(),
  expiresAt: time().notNull(),
})

export const providerEvents = pgTable('provider_events', {
  id: text().primaryKey(),
  receivedAt: time().notNull(),
})
