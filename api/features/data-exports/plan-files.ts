import { hash } from 'node:crypto'
import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import type { OwnFile } from '../../requests/own-data.ts'
import type { ExportFilm } from './content.ts'
import { PLAYLIST } from './pages.ts'
import { comparable, namePaths, segmentOf, wantedPath } from './path-plan.ts'
import { type ArchiveLimits, entryBytes, type Packing, place, placeTogether } from './plan.ts'
import {
  addToParts,
  type DataExportEntryRow,
  type DataExportRow,
  findHighest,
  findTakenPaths,
  insertEntries,
  listParts,
  setOpenPart,
} from './queries.ts'

/** Below it are the films. What people named is below a year. */
const FILMS = 'films'

const keyHash = (path: string) => hash('sha256', comparable(path), 'hex').slice(0, 32)

/** Names the files, which come after all that are planned, and puts them into parts. */
export async function planBatch(
  tx: Tx,
  of: DataExportRow,
  files: readonly OwnFile[],
  limits: ArchiveLimits,
): Promise<void> {
  if (files.length === 0) return
  const wanting = files.map((file) => ({ mediaId: file.mediaId, wanted: wantedPath(file) }))
  const byHash = await findHighest(
    tx,
    of.id,
    wanting.map(({ wanted }) => keyHash(wanted)),
  )
  const highest = new Map(wanting.map(({ wanted }) => [comparable(wanted), byHash.get(keyHash(wanted)) ?? 0]))
  const named = await namePaths(wanting, highest, async (paths) => {
    const taken = await findTakenPaths(tx, of.id, paths.map(keyHash))
    return new Set(paths.filter((path) => taken.has(keyHash(path))))
  })
  let packing = await packingOf(tx, of)
  const added = new Map<number, { number: number; files: number; bytes: number }>()
  const rows = files.map((file, n): DataExportEntryRow => {
    const { path, nth } = named.get(file.mediaId) ?? { path: file.mediaId, nth: 1 }
    const placed = place(packing, entryBytes({ path, bytes: file.bytes }), limits)
    packing = placed.packing
    const into = added.get(placed.part) ?? { number: placed.part, files: 0, bytes: 0 }
    added.set(placed.part, { ...into, files: into.files + 1, bytes: into.bytes + file.bytes })
    return {
      exportId: of.id,
      mediaId: file.mediaId,
      orgId: file.orgId,
      part: placed.part,
      path,
      wantedKey: keyHash(wanting[n]?.wanted ?? ''),
      pathKey: keyHash(path),
      nth,
      bytes: file.bytes,
      takenAt: file.takenAt,
      mimeType: file.mimeType,
      highlightId: null,
      objectKey: null,
    }
  })
  await insertEntries(tx, rows)
  await addToParts(tx, of, [...added.values()])
  await setOpenPart(tx, of.id, packing.open)
}

/** Where the plan stands. */
async function packingOf(tx: Tx, of: DataExportRow): Promise<Packing> {
  const parts = await listParts(tx, [of.id])
  const open = parts.find(({ number }) => number === of.openPart)
  return {
    open: of.openPart,
    openBytes: open?.bytes ?? 0,
    openFiles: open?.files ?? 0,
    last: parts.at(-1)?.number ?? 1,
  }
}

/** Names the folder of a film, and puts all of its files into one part: it plays from there alone. */
export async function planFilm(
  tx: Tx,
  of: DataExportRow,
  { film, files }: { film: ExportFilm; files: readonly { name: string; bytes: number }[] },
  limits: ArchiveLimits,
): Promise<void> {
  const { highlightId, orgId, master, createdAt } = film
  // Lost in the store: then there is no film, and its record says so.
  if (!files.some(({ name }) => name === master)) return
  const wanted = `${FILMS}/${segmentOf(film.title, 'film')}`
  const wantedKey = keyHash(wanted)
  const highest = await findHighest(tx, of.id, [wantedKey])
  const named = await namePaths(
    [{ mediaId: highlightId, wanted }],
    new Map([[comparable(wanted), highest.get(wantedKey) ?? 0]]),
    async (folders) => {
      const taken = await findTakenPaths(
        tx,
        of.id,
        folders.map((folder) => keyHash(`${folder}/${master}`)),
      )
      return new Set(folders.filter((folder) => taken.has(keyHash(`${folder}/${master}`))))
    },
  )
  const { path: folder, nth } = named.get(highlightId) ?? { path: `${FILMS}/${highlightId}`, nth: 1 }
  const inside = files.map(({ name, bytes }) => ({ name, bytes, path: `${folder}/${name}` }))
  const size = inside.reduce((sum, file) => sum + entryBytes(file), 0)
  const { part, packing } = placeTogether(await packingOf(tx, of), { count: inside.length, bytes: size }, limits)
  const rows = inside.map(({ name, bytes, path }): DataExportEntryRow => {
    const isFirst = name === master
    return {
      exportId: of.id,
      mediaId: isFirst ? (highlightId as Uuid as DataExportEntryRow['mediaId']) : newUuid(),
      orgId,
      part,
      path,
      wantedKey,
      pathKey: keyHash(path),
      nth,
      bytes,
      takenAt: createdAt,
      mimeType: isFirst ? PLAYLIST : 'application/octet-stream',
      highlightId,
      objectKey: film.prefix + name,
    }
  })
  await insertEntries(tx, rows)
  await addToParts(tx, of, [
    { number: part, files: rows.length, bytes: inside.reduce((sum, { bytes }) => sum + bytes, 0) },
  ])
  await setOpenPart(tx, of.id, packing.open)
}
