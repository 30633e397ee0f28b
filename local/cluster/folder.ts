import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { environOf, listPids, statOf } from './process-table.ts'

/** Every process of a pod, and what it started, carries this variable: that is how leftovers are recognised. */
export const TERMINATION_LOG = 'TERMINATION_LOG'

export const podsFolder = (folder: string): string => join(folder, 'pods')

/**
 * Makes the folder ours: throws while another live process has it, and otherwise removes what a killed predecessor
 * left, processes first. Returns what gives it back.
 */
export function claimFolder(folder: string): () => void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const lock = join(folder, 'owner')
  takeLock(lock, folder)
  killLeftovers(podsFolder(folder))
  rmSync(podsFolder(folder), { recursive: true, force: true, maxRetries: 3 })
  return () => {
    rmSync(podsFolder(folder), { recursive: true, force: true, maxRetries: 3 })
    rmSync(lock, { force: true })
  }
}

function takeLock(lock: string, folder: string): void {
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      const file = openSync(lock, 'wx', 0o600)
      writeSync(file, identityOf(process.pid))
      closeSync(file)
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const owner = readLock(lock)
    if (isAlive(owner)) throw new Error(`${folder} is in use by process ${owner.split(' ')[0]}`)
    rmSync(lock, { force: true })
  }
  throw new Error(`${folder} is being claimed by another process`)
}

/** A pid alone is given to another program sooner or later. */
const identityOf = (pid: number): string => `${pid} ${statOf(pid)?.startedTicks ?? ''}`

function readLock(lock: string): string {
  try {
    return readFileSync(lock, 'utf8')
  } catch {
    return ''
  }
}

function isAlive(owner: string): boolean {
  const pid = Number(owner.split(' ')[0])
  if (!pid) return false
  try {
    process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
  return identityOf(pid) === owner
}

/** What outlived the process that started it: grandchildren that detached themselves, or a machine without setpriv. */
function killLeftovers(pods: string): void {
  for (const pid of listPids()) {
    if (!environOf(pid).some((entry) => entry.startsWith(`${TERMINATION_LOG}=${pods}/`))) continue
    try {
      process.kill(Number(pid), 'SIGKILL')
    } catch {
      // It ended by itself in the meantime.
    }
  }
}
