import * as z from 'zod'
import { formatId, type Uuid } from '../../../lib/contract/ids.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../../db/db.ts'
import { timeOf } from '../../requests/own-data.ts'
import { outputTime } from '../../requests/schemas.ts'
import type { ExportContent, ExportRow, ExportSection, ExportWords } from './content.ts'
import { recordsPage, type SectionPages } from './pages.ts'
import { addPeople, type DataExportRow, findPlaces } from './queries.ts'
import { uploadInPieces } from './upload.ts'

const VERSION = 1
/** Rows of one query. */
const BATCH = 500
/** Records of one page to look at. */
const PAGE = 500

const withFile = {
  file: z.string().nullable().meta({ description: 'The path of the original in its archive; null: none is in it' }),
  archive: z.string().nullable().meta({ description: 'The name of that archive' }),
}

const recordOf = ({ record, fileOf }: Pick<ExportSection, 'record' | 'fileOf'>): z.ZodObject =>
  fileOf ? record.extend(withFile) : record

/** The shape of `data.json`, or of `event.json`. */
export const documentOf = ({
  format,
  head,
  sections,
}: Pick<ExportContent, 'format' | 'head' | 'sections'>): z.ZodObject =>
  z.strictObject({
    format: z.literal(format),
    version: z.literal(VERSION),
    export_id: z.string(),
    ...head.shape,
    created_at: outputTime(),
    archives: z.array(z.strictObject({ name: z.string(), files: z.int() })),
    ...Object.fromEntries(
      sections.map((section) => [section.name, z.array(recordOf(section)).meta({ title: section.title })]),
    ),
  })

export interface Staged {
  path: string
  key: string
  bytes: number
}

export interface DocumentDeps {
  db: Database
  store: ObjectStore
  content: ExportContent
}

interface Wanted {
  of: DataExportRow
  archives: readonly { name: string; files: number }[]
  words: ExportWords
  /** Where the files wait until they are in the archive. */
  prefix: string
  signal: AbortSignal
}

/**
 * Writes the document and the pages to look at it into the store, reading each record once and holding a page of them.
 * What changes meanwhile is in it or not, record by record.
 */
export async function stageDocument(
  deps: DocumentDeps,
  { of, archives, words, prefix, signal }: Wanted,
): Promise<{ files: Staged[]; sections: SectionPages[] }> {
  const files: Staged[] = []
  const sections: SectionPages[] = []

  async function stagePage(path: string, html: string): Promise<void> {
    const body = Buffer.from(html)
    const key = `${prefix}page-${files.length + 1}`
    await deps.store.put(key, body, { contentType: 'text/html', size: body.length, signal })
    files.push({ path, key, bytes: body.length })
  }

  async function* text(): AsyncIterable<string> {
    const head = {
      format: deps.content.format,
      version: VERSION,
      export_id: formatId('export', of.id),
      ...deps.content.head.of(of),
      created_at: of.createdAt.toISOString(),
      archives,
    }
    yield JSON.stringify(head).slice(0, -1)
    for (const section of deps.content.sections) {
      yield `,\n${JSON.stringify(section.name)}:[`
      const pages = pagesOf(section, words, stagePage)
      let count = 0
      for await (const records of recordsOf(deps, { of, archives, section })) {
        signal.throwIfAborted()
        for (const record of records) {
          yield `${count++ === 0 ? '\n' : ',\n'}${JSON.stringify(record)}`
          await pages.add(record)
        }
      }
      sections.push({ title: section.title, records: count, pages: await pages.end() })
      yield ']'
    }
    yield '}\n'
  }

  const key = `${prefix}data`
  const bytes = await uploadInPieces(deps.store, key, buffered(text()), { contentType: 'application/json', signal })
  return { files: [{ path: deps.content.document, key, bytes }, ...files], sections }
}

/** Collects records to pages of `PAGE`. A page says whether there is another one, so it waits for its first record. */
function pagesOf(section: ExportSection, words: ExportWords, stage: (path: string, html: string) => Promise<void>) {
  const paths: string[] = []
  let records: Record<string, unknown>[] = []
  const pathOf = (page: number) => `pages/${section.name.replaceAll('_', '-')}-${page}.html`
  async function write(hasNext: boolean): Promise<void> {
    const page = paths.length + 1
    const { title, heading } = section
    const next = hasNext ? pathOf(page + 1) : undefined
    const html = recordsPage({ title, all: words.all, heading, records, page, before: paths.at(-1), next })
    await stage(pathOf(page), html)
    paths.push(pathOf(page))
    records = []
  }
  return {
    async add(record: Record<string, unknown>): Promise<void> {
      if (records.length === PAGE) await write(true)
      records.push(record)
    },
    async end(): Promise<string[]> {
      if (records.length > 0) await write(false)
      return paths
    },
  }
}

/** The records of a section as they leave, batch by batch. */
async function* recordsOf(
  { db }: DocumentDeps,
  { of, archives, section }: Pick<Wanted, 'of' | 'archives'> & { section: ExportSection },
): AsyncIterable<Record<string, unknown>[]> {
  const schema = recordOf(section)
  const times = timesOf(schema)
  for (let after: string | undefined; ; ) {
    const rows = await db.inTransaction({}, async (tx) => {
      const found = await section.list(tx, { of, after, limit: BATCH })
      await addPeople(tx, of, found)
      const { fileOf } = section
      if (!fileOf || found.length === 0) return found
      const ids = found.map((row) => row[fileOf] as Uuid)
      const places = await findPlaces(tx, of.id, ids)
      return found.map((row): ExportRow => {
        const place = places.get(row[fileOf] as Uuid)
        return { ...row, file: place?.path ?? null, archive: place ? (archives[place.part - 1]?.name ?? null) : null }
      })
    })
    yield rows.map(({ key: _, people: __, ...row }) => schema.parse(withTimes(row, times)) as Record<string, unknown>)
    after = rows.at(-1)?.key
    if (rows.length < BATCH) return
  }
}

/** The fields that are times. */
const timesOf = (schema: z.ZodObject) =>
  Object.entries(schema.shape).flatMap(([name, field]) => {
    const inner: unknown = field instanceof z.ZodNullable ? field.unwrap() : field
    return inner instanceof z.ZodISODateTime ? [name] : []
  })

function withTimes(row: Record<string, unknown>, times: readonly string[]): Record<string, unknown> {
  const shown = { ...row }
  for (const name of times) if (typeof row[name] === 'string') shown[name] = timeOf(row[name]).toISOString()
  return shown
}

const CHUNK = 65_536

/** Few large buffers instead of many small texts. */
async function* buffered(texts: AsyncIterable<string>): AsyncIterable<Buffer> {
  let waiting = ''
  for await (const text of texts) {
    waiting += text
    if (waiting.length < CHUNK) continue
    yield Buffer.from(waiting)
    waiting = ''
  }
  if (waiting !== '') yield Buffer.from(waiting)
}
