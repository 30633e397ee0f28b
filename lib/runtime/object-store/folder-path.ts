import { mkdir, open, readdir, rename, rm, rmdir, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { errnoOf, FOLDER_MODE } from './folder-file.ts'

/** Contains a character that keys cannot have, so that the object `a` and the folder of `a/b` can coexist. */
export const OBJECT_SUFFIX = '~object'
const DAY_MS = 24 * 60 * 60 * 1000

/** The layout of the folder. It must be one file system, because files are moved into place by rename. */
export function layout(folder: string) {
  const root = resolve(folder)
  const objects = join(root, 'objects')
  return {
    root,
    objects,
    temporary: join(root, 'tmp'),
    /** Contains one folder per open multipart upload. */
    uploads: join(root, 'uploads'),
    /** Contains uploads whose parts are joined but not yet moved to `objects`. */
    completing: join(root, 'completing'),
    object: (key: string) => join(objects, ...key.split('/')) + OBJECT_SUFFIX,
  }
}
export type Layout = ReturnType<typeof layout>

/**
 * Renames a synced file to its place, creates the folders above it, and syncs those. Throws ENOENT when `from` does not
 * exist.
 */
export async function moveIntoPlace(from: string, to: string, top: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await mkdir(dirname(to), { recursive: true, mode: FOLDER_MODE })
      await rename(from, to)
      break
    } catch (error) {
      // A concurrent delete may remove the still empty folder before the rename (ENOENT), or while mkdir checks an
      // existing folder, which mkdir then reports as ENOTDIR.
      if (!['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '') || attempt === 500 || !(await exists(from))) throw error
    }
  }
  await syncUp(dirname(to), top)
}

/** Syncs every folder up to the top: another process may have created one of them and not synced it yet. */
async function syncUp(folder: string, top: string): Promise<void> {
  for (let at = folder; ; at = dirname(at)) {
    await syncFolder(at)
    if (at === top) return
  }
}

export async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, 'r')
    await handle.sync().finally(() => handle.close())
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error
  }
}

/** Removes the folders that a delete has left empty. rmdir refuses a folder to which a writer has just added a file. */
export async function removeEmptyFolders(folder: string, top: string): Promise<void> {
  for (let at = folder; at !== top; at = dirname(at)) {
    try {
      await rmdir(at)
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') continue
      return
    }
  }
}

/** Removes half-written files of killed processes after a day: no body pauses for that long. */
export async function sweepTemporary(folder: string, nowMs: number): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    try {
      if (nowMs - (await stat(path)).mtimeMs > DAY_MS) await rm(path, { recursive: true, force: true })
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw error
    }
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}
