import { type SQL, sql } from '../db/orm.ts'

const COLUMNS: Readonly<Record<string, readonly string[]>> = {
  media: ['uploader_id'],
  uploads: ['uploader_id'],
  events: ['owner_id'],
  event_participants: ['user_id'],
  albums: ['owner_id'],
  album_media: ['added_by', 'caption_by'],
  comments: ['author_id'],
  reactions: ['user_id'],
  invitations: ['user_id', 'invited_by', 'former_inviter', 'responded_by'],
  highlights: ['created_by'],
  highlight_items: ['uploader_id'],
  notifications: ['user_id'],
}

/**
 * Whether the person has left anything in the organization, also one who is no member any more. A row that only mentions the
 * person is found by its notification.
 */
export const hasTracesIn = (orgId: SQL, userId: SQL): SQL<boolean> =>
  sql<boolean>`(${sql.join(
    Object.entries(COLUMNS).flatMap(([table, columns]) =>
      columns.map(
        (column) =>
          sql`exists (select from ${sql.identifier(table)} x where x.org_id = ${orgId} and x.${sql.identifier(column)} = ${userId})`,
      ),
    ),
    sql` or `,
  )})`
