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
  highlight_items: ['uploader_id', 'caption_by'],
  notifications: ['user_id'],
}

/** Of ids of people. The indexes have only rows with a mention, so the question names that condition, too. */
const LISTS: Readonly<Record<string, readonly string[]>> = {
  comments: ['mentions', 'mentions_given'],
  comment_versions: ['mentions'],
}

const among = (tables: Readonly<Record<string, readonly string[]>>, is: (column: SQL) => SQL, orgId: SQL): SQL[] =>
  Object.entries(tables).flatMap(([table, columns]) =>
    columns.map(
      (column) =>
        sql`exists (select from ${sql.identifier(table)} x where x.org_id = ${orgId} and ${is(sql`x.${sql.identifier(column)}`)})`,
    ),
  )

/** Whether the person has left anything in the organization, or is mentioned there, also one who is no member any more. */
export const hasTracesIn = (orgId: SQL, userId: SQL): SQL<boolean> =>
  sql<boolean>`(${sql.join(
    [
      ...among(COLUMNS, (column) => sql`${column} = ${userId}`, orgId),
      ...among(LISTS, (column) => sql`${column} @> array[${userId}]::uuid[] and ${column} <> '{}'`, orgId),
    ],
    sql` or `,
  )})`
