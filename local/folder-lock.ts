import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

export interface FolderLock {
  release(): void
}

/** SQLite takes the lock in steps: of several that begin at one moment each can be in the way of all others for an instant. */
const CONTEST_MS = 250

/**
 * Makes this process the only one that works in the folder, or throws a sentence that names the one that does. The
 * lock is the kernel's (through SQLite, as Node has no other door to it): it ends with the process however that dies,
 * so there is no stale lock to judge and no moment at which two could believe that they took over.
 */
export function lockFolder(folder: string): FolderLock {
  const holder = join(folder, 'lock.pid')
  const file = new DatabaseSync(join(folder, 'lock'), { timeout: CONTEST_MS })
  try {
    file.exec('begin exclusive')
  } catch (cause) {
    file.close()
    throw new Error(
      `${folder} is in use by process ${readPid(holder)}: stop that one first, or choose another folder`,
      {
        cause,
      },
    )
  }
  // Only for people: what counts is the lock.
  writeFileSync(holder, `${process.pid}\n`)
  return { release: () => file.close() }
}

function readPid(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return 'unknown'
  }
}
