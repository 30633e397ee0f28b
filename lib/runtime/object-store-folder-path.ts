import { mkdir, open, readdir, rename, rm, rmdir, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { errnoOf, FOLDER_MODE } from './object-store-folder-file.ts'

/** Not in the alphabet of keys, so that the object `a` and the folder of `a/b` lie side by side. */
export const OBJECT_SUFFIX = '~object'
const DAY_MS = 24 * 60 * 60 * 1000

/** Where things lie in the folder. All of it must be one file system: everything is moved into place by rename. */
export function layout(folder: string) {
  const root = resolve(folder)
  const objects = join(root, 'objects')
  return {
    root,
    objects,
    temporary: join(root, 'tmp'),
    /** One folder per open multipart upload. */
    uploads: join(root, 'uploads'),
    /** An upload whose parts are joined, on its way to `objects`. */
    completing: join(root, 'completing'),
    object: (key: string) => join(objects, ...key.split('/')) + OBJECT_SUFFIX,
  }
}
export type Layout = ReturnType<typeof layout>

/**
 * Renames a durable file to its place, making the folders above it, and makes the name durable too. ENOENT when
 * `from` is gone.
 */
export async function moveIntoPlace(from: string, to: string, top: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await mkdir(dirname(to), { recursive: true, mode: FOLDER_MODE })
      await rename(from, to)
      break
    } catch (error) {
      // A delete may have removed a still empty folder between the two lines, or between two steps of the first: mkdir
      // then finds one there, looks at it, finds none, and says that it is no folder.
      if (!['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '') || attempt === 500 || !(await exists(from))) throw error
    }
  }
  await syncUp(dirname(to), top)
}

/** Every folder from here to the top: one of them may be new, made by another process that has not synced it yet. */
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

/** Removes the folders that a delete has left empty. rmdir refuses a folder that somebody has just put something in. */
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

/** Half-written files of processes that were killed. A day: no body takes that long without a byte. */
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
