import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

export interface FolderLock {
  release(): void
}

/** SQLite takes the lock in steps, so processes that start at the same moment can block each other briefly. */
const CONTEST_MS = 250

/**
 * Locks the folder for this process; throws a sentence that names the process that holds the lock. The kernel keeps the
 * lock (through SQLite, since Node has no API for file locks) and releases it when the process ends in any way, so a
 * lock is never stale and two processes never take over one.
 */
export function lockFolder(folder: string): FolderLock {
  const holder = join(folder, 'lock.pid')
  const file = new DatabaseSync(join(folder, 'lock'), { timeout: CONTEST_MS })
  try {
    file.exec('begin exclusive')
    // For the error message below; the lock itself does not depend on it.
    writeFileSync(holder, `${process.pid}\n`)
  } catch (cause) {
    file.close()
    const problem = isBusy(cause)
      ? `is in use by process ${readPid(holder)}: stop that one first, or choose another folder`
      : `cannot be locked: ${(cause as Error).message}`
    throw new Error(`${folder} ${problem}`, { cause })
  }
  return { release: () => file.close() }
}

const SQLITE_BUSY = 5
/** Not so of a full disk, or of a file that is no longer a database. The lowest byte is the code, the others its detail. */
const isBusy = (error: unknown) => (((error as { errcode?: number }).errcode ?? 0) & 0xff) === SQLITE_BUSY

function readPid(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return 'unknown'
  }
}
