import { hash } from 'node:crypto'
import type { Tx } from '../../db/db.ts'
import type { OwnFile } from '../../requests/own-data.ts'
import { comparable, namePaths, wantedPath } from './path-plan.ts'
import { type ArchiveLimits, entryBytes, type Packing, place } from './plan.ts'
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
  const parts = await listParts(tx, [of.id])
  const open = parts.find(({ number }) => number === of.openPart)
  let packing: Packing = {
    open: of.openPart,
    openBytes: open?.bytes ?? 0,
    openFiles: open?.files ?? 0,
    last: parts.at(-1)?.number ?? 1,
  }
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
    }
  })
  await insertEntries(tx, rows)
  await addToParts(tx, of, [...added.values()])
  await setOpenPart(tx, of.id, packing.open)
}
