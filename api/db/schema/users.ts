import { boolean, integer, pgTable, primaryKey, text, timestamp } from '../orm.ts'
import { bytes, id, time } from './columns.ts'

export const users = pgTable('users', {
  id: id('user').primaryKey(),
  issuer: text().notNull(),
  subject: text().notNull(),
  email: text(),
  /** Verified, E.164. */
  phoneNumber: text(),
  displayName: text(),
  /** Of the token: a BCP 47 language tag. */
  locale: text(),
  /** No one signs in with it any more, and its data are being erased. */
  closedAt: time(),
  tokensNotBefore: timestamp({ withTimezone: true, mode: 'string' }).notNull(),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
})

/** Only triggers write these tables. What counts against the quotas says `storage_of`. */
export const userStorage = pgTable('user_storage', {
  userId: id('user').primaryKey(),
  mediaBytes: bytes().notNull().default(0),
  uploadBytes: bytes().notNull().default(0),
  openUploads: integer().notNull().default(0),
  highlightBytes: bytes().notNull().default(0),
  pieceBytes: bytes().notNull().default(0),
  /** Whether `storage_in_organizations` has all of it. */
  isSplit: boolean().notNull().default(true),
})

export const storageInOrganizations = pgTable(
  'storage_in_organizations',
  {
    userId: id('user').notNull(),
    orgId: id('organization').notNull(),
    bytes: bytes().notNull().default(0),
    openUploads: integer().notNull().default(0),
  },
  (table) => [primaryKey({ columns: [table.userId, table.orgId] })],
)
