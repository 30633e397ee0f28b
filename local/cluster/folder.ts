import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type FolderLock, lockFolder } from '../folder-lock.ts'
import { environOf, listPids } from './pod-processes.ts'

/** Every process of a pod, and what it started, carries this variable: that is how leftovers are recognised. */
export const TERMINATION_LOG = 'TERMINATION_LOG'

export const podsFolder = (folder: string): string => join(folder, 'pods')

/** Referenced from here, or the garbage collector would give a lock back while its cluster still works. */
const held = new Set<FolderLock>()

/**
 * Makes the folder ours: throws while another live process has it, and otherwise removes what a killed predecessor
 * left, processes first. Returns what gives it back.
 */
export function claimFolder(folder: string): () => void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const lock = lockFolder(folder)
  held.add(lock)
  const pods = podsFolder(folder)
  const removePods = () => rmSync(pods, { recursive: true, force: true, maxRetries: 3 })
  killLeftovers(pods)
  removePods()
  return () => {
    removePods()
    lock.release()
    held.delete(lock)
  }
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
