import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type FolderLock, lockFolder } from '../folder-lock.ts'
import { environOf, listPids } from './pod-processes.ts'

/** Every process of a pod inherits this variable, so leftover processes are found by it. */
export const TERMINATION_LOG = 'TERMINATION_LOG'

export const podsFolder = (folder: string): string => join(folder, 'pods')

/** Keeps the locks referenced: the garbage collector would otherwise release one while its cluster runs. */
const held = new Set<FolderLock>()

/**
 * Locks the folder and removes the processes and files that a killed predecessor left. Throws while another live
 * process holds it. Returns the function that releases it.
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

/** Kills processes that outlived the cluster: detached grandchildren, or any where there is no setpriv. */
function killLeftovers(pods: string): void {
  for (const pid of listPids()) {
    if (!environOf(pid).some((entry) => entry.startsWith(`${TERMINATION_LOG}=${pods}/`))) continue
    try {
      process.kill(Number(pid), 'SIGKILL')
    } catch {
      // The process has ended by itself.
    }
  }
}
