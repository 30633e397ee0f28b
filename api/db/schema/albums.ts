import { bigint, boolean, integer, pgTable, primaryKey, text } from '../orm.ts'
import { id, time } from './columns.ts'

export const ALBUM_STATUSES = ['DRAFT', 'PUBLIC', 'ARCHIVE'] as const
export type AlbumStatus = (typeof ALBUM_STATUSES)[number]
export const ALBUM_VISIBILITIES = ['organization', 'participants', 'private'] as const
export type AlbumVisibility = (typeof ALBUM_VISIBILITIES)[number]

export const albums = pgTable('albums', {
  id: id('album').primaryKey(),
  orgId: id('organization').notNull(),
  ownerId: id('user').notNull(),
  eventId: id('event'),
  title: text().notNull(),
  description: text(),
  visibility: text({ enum: ALBUM_VISIBILITIES }).notNull().default('organization'),
  status: text({ enum: ALBUM_STATUSES }).notNull().default('DRAFT'),
  nextPosition: bigint({ mode: 'number' }).notNull().default(0),
  version: integer().notNull().default(1),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
})
export type AlbumRow = typeof albums.$inferSelect

export const albumMedia = pgTable(
  'album_media',
  {
    albumId: id('album').notNull(),
    mediaId: id('media').notNull(),
    orgId: id('organization').notNull(),
    position: bigint({ mode: 'number' }).notNull(),
    caption: text(),
    isCover: boolean().notNull().default(false),
    listed: boolean().notNull(),
    addedBy: id('user').notNull(),
    addedAt: time().notNull().defaultNow(),
    /** Null: taken for that of `addedBy`. */
    captionBy: id('user'),
  },
  (t) => [primaryKey({ columns: [t.albumId, t.mediaId] })],
)
export type AlbumMediaRow = typeof albumMedia.$inferSelect
