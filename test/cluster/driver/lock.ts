import { spawn } from 'node:child_process'
import { once } from 'node:events'

/**
 * Does the work while nobody else who asks for the same file does theirs. The kernel keeps the lock, so that one whose
 * holder was killed is free at once.
 */
export async function underLock<T>(file: string, work: () => Promise<T>, onWait: () => void): Promise<T> {
  // The holder ends when its standard input does: with our release, or with us.
  const holder = spawn('flock', [file, 'sh', '-c', 'echo held && exec cat'], {
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true, // Ctrl-C is for us; until we have ended the lock is held
  })
  const ended = once(holder, 'close')
  const patience = setTimeout(onWait, 1000)
  try {
    const held = once(holder.stdout, 'data').then(() => true)
    if (!(await Promise.race([held, ended.then(() => false)]))) throw new Error(`Cannot lock ${file}`)
    clearTimeout(patience)
    return await work()
  } finally {
    clearTimeout(patience)
    holder.stdin.end()
    await ended
  }
}
