import * as z from 'zod'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'

/** The rows after a key, in the order of their keys. */
export interface OwnPage {
  userId: Uuid
  /** Of the last row of the page before; undefined for the first page. */
  after: string | undefined
  limit: number
}

/** `key` orders the rows and is not shown; all other columns are the record, with UUIDs and times as Postgres prints them. */
export type OwnRow = { key: string } & Record<string, unknown>

/** One kind of records of which a person gets their own: a list in `data.json`, and pages to look at. */
export interface OwnSection {
  /** The name of the list in `data.json`. */
  name: string
  /** The heading on the page. */
  title: string
  /** One record: documented, and checked when it is written. */
  record: z.ZodObject
  /** The field that names a record on the page. */
  heading: string
  /** Its records have a `media_id`: the export adds where the file is. */
  hasFiles?: true
  /** As keepsake_worker, which sees all organizations: the query itself says what is the person's. */
  list(tx: Tx, page: OwnPage): Promise<OwnRow[]>
}

/** What others call an event or an album now. */
export const titleIfSeen = z.string().nullable().meta({
  description: 'Null where the person is no member of the organization any more, and takes no part in the event',
})

/** An original that a person gets. */
export interface OwnFile {
  mediaId: Uuid
  orgId: Uuid
  /** In the object store. */
  key: string
  filename: string
  mimeType: string
  bytes: number
  takenAt: Date
  /** An event whose album the person put it in. */
  event: { title: string; startAt: Date } | undefined
}

export interface OwnFiles {
  /** Of media items that are not in the trash, in the order of their ids. */
  list(tx: Tx, page: OwnPage): Promise<OwnFile[]>
  /** Those of these media items that are still there. */
  findKept(tx: Tx, mediaIds: readonly Uuid[]): Promise<Uuid[]>
  /** Where their originals are in the object store now. Those that are gone have none. */
  findKeys(tx: Tx, mediaIds: readonly Uuid[]): Promise<Map<Uuid, string>>
}

/** What a person gets of their own from a feature, or why there is nothing. */
export type OwnData = { sections: readonly OwnSection[]; files?: OwnFiles } | { nothing: string }

/** A time as Postgres prints it, in UTC. */
export const timeOf = (text: string): Date => new Date(text.replace(' ', 'T').replace(/\+00$/, 'Z'))

/** Before every id. */
export const FIRST_ID = '00000000-0000-0000-0000-000000000000'
/** A key of two ids, as text. */
export const pairOf = (after: string | undefined): [Uuid, Uuid] => {
  const [first = FIRST_ID, second = FIRST_ID] = after?.split('/') ?? []
  return [first, second]
}
