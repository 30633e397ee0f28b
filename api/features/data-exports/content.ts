import * as z from 'zod'
import { formatId, type Id, type Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import type { ExportFailure } from '../../db/schema/data-exports.ts'
import type { OwnData, OwnFile, OwnFiles, OwnRow, OwnSection } from '../../requests/own-data.ts'
import type { DownloadKind } from '../downloads/queries.ts'
import type { DataExportEntryRow, DataExportRow } from './queries.ts'

/** The rows after a key, in the order of their keys, of the subject of an export. */
export interface ExportPage {
  of: DataExportRow
  after: string | undefined
  limit: number
}

/** Whose data it has, beside those of the person who asked. Recorded in the transaction that reads it. */
interface OfPeople {
  people?: readonly Uuid[]
}
export type ExportRow = OwnRow & OfPeople
export type ExportFile = OwnFile & OfPeople

export interface ExportSection extends Omit<OwnSection, 'list' | 'hasFiles'> {
  /** The field by whose id the plan knows the file of a record: the export adds where the file is. */
  fileOf?: 'media_id' | 'highlight_id'
  list(tx: Tx, page: ExportPage): Promise<ExportRow[]>
}

export type PlannedFile = Pick<DataExportEntryRow, 'mediaId' | 'highlightId'>

export interface ExportFiles extends Pick<OwnFiles, 'findKeys'> {
  /** In the order of their ids. */
  list(tx: Tx, page: ExportPage): Promise<ExportFile[]>
  /** The ids of those of these files that are still there for the person. */
  findKept(tx: Tx, of: DataExportRow, files: readonly PlannedFile[]): Promise<Uuid[]>
}

/** A film: a folder of the files below a prefix. */
export interface ExportFilm extends OfPeople {
  highlightId: Id<'highlight'>
  orgId: Id<'organization'>
  title: string
  prefix: string
  /** The first playlist, below the prefix. */
  master: string
  createdAt: Date
}

/** What the pages of an archive say. Texts, which the pages escape. */
export interface ExportWords {
  /** Of the first page of each archive. */
  title: string
  /** Above the lists of records. */
  data: string
  /** Leads back to the first page. */
  all: string
  /** What only the first archive has. */
  first: string
}

/** What an export consists of. The exporter makes archives of any content. */
export interface ExportContent {
  kind: DownloadKind
  /** The file with all records, and what it says of its format. */
  document: string
  format: string
  /** The fields of the document that say what it is about. */
  head: { shape: z.ZodRawShape; of(row: DataExportRow): Record<string, unknown> }
  sections: readonly ExportSection[]
  files: ExportFiles
  /** The first film behind this one, in the order of their ids. */
  nextFilm?(tx: Tx, of: DataExportRow, after: Uuid | undefined): Promise<ExportFilm | undefined>
  words(of: DataExportRow): ExportWords
  /**
   * Throws ExportRefused when there is no export for the person who asked. Asked before each step, and with the last one. Returns
   * what the person may see, in words to compare.
   */
  check(tx: Tx, of: DataExportRow): Promise<string>
}

/** There is no export for the person who asked, and a retry changes nothing. */
export class ExportRefused extends Error {
  readonly failure: ExportFailure
  constructor(failure: ExportFailure) {
    super(`the export ends: ${failure}`)
    this.failure = failure
  }
}

export interface ExportContents {
  own: ExportContent
  event: ExportContent
}

export const contentOf = ({ own, event }: ExportContents, { eventId }: Pick<DataExportRow, 'eventId'>) =>
  eventId === null ? own : event

const sectionsOf = (all: readonly OwnData[]): OwnSection[] =>
  all.flatMap((one) => ('sections' in one ? one.sections : []))

function filesOf(all: readonly OwnData[]): OwnFiles {
  const [files, ...others] = all.flatMap((one) => ('files' in one && one.files ? [one.files] : []))
  // The plan goes on behind the last media item.
  if (!files || others.length > 0) throw new Error('exactly one feature has files')
  return files
}

/** Everything that features have of the person who asked. */
export function ownContent(all: readonly OwnData[]): ExportContent {
  const { list, findKept, findKeys } = filesOf(all)
  return {
    kind: 'data',
    document: 'data.json',
    format: 'keepsake-data-export',
    head: { shape: { user_id: z.string() }, of: ({ userId }) => ({ user_id: formatId('user', userId) }) },
    sections: sectionsOf(all).map(({ hasFiles, ...section }) => ({
      ...section,
      ...(hasFiles && { fileOf: 'media_id' }),
      list: (tx, { of, ...page }) => section.list(tx, { userId: of.userId, ...page }),
    })),
    files: {
      findKeys,
      list: (tx, { of, ...page }) => list(tx, { userId: of.userId, ...page }),
      findKept: (tx, _, files) =>
        findKept(
          tx,
          files.map(({ mediaId }) => mediaId),
        ),
    },
    words: ({ createdAt }) => ({
      title: `Your data in Keepsake, ${createdAt.toISOString().slice(0, 10)}`,
      data: 'Your data',
      all: 'All your data',
      first: 'What you wrote and own is in the first one.',
    }),
    check: async () => 'own',
  }
}
