import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type FolderLock, lockFolder } from '../folder-lock.ts'
import { sendSignal } from '../process-table.ts'
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
  killLeftovers(pods)
  removeFolder(pods)
  return () => {
    removeFolder(pods)
    lock.release()
    held.delete(lock)
  }
}

const DEATH_MS = 30_000
const PAUSE_MS = 10

/**
 * Kills processes that outlived the cluster: detached grandchildren, or any where there is no setpriv. Waits until they
 * have ended: one that is dying may still create a file, and then its folder cannot be removed.
 */
function killLeftovers(pods: string): void {
  const isLeft = (pid: string) => environOf(pid).some((entry) => entry.startsWith(`${TERMINATION_LOG}=${pods}/`))
  for (const end = performance.now() + DEATH_MS; ; pause(PAUSE_MS)) {
    // Looked for anew each time: a process may have had a child since.
    const left = listPids().filter(isLeft)
    if (left.length === 0 || performance.now() > end) return
    for (const pid of left) sendSignal(Number(pid), 'SIGKILL')
  }
}

/**
 * Retries while the folder fills: a thread of a process that was killed may end after the process is seen no more. The
 * retries of `rmSync` do not pause (Node 24).
 */
function removeFolder(path: string): void {
  for (const end = performance.now() + DEATH_MS; ; pause(PAUSE_MS)) {
    try {
      rmSync(path, { recursive: true, force: true })
      return
    } catch (error) {
      const isFilling = ['ENOTEMPTY', 'EBUSY'].includes((error as NodeJS.ErrnoException).code ?? '')
      if (!isFilling || performance.now() > end) throw error
    }
  }
}

/** Blocks this process, which does nothing else while it claims or releases its folder. */
const pause = (ms: number) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
