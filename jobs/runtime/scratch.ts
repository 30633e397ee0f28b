import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'

const NAME = /^keepsake-(.+)-(\d+)-[A-Za-z0-9]{6}$/

/**
 * Gives `use` an empty folder below `parent` and always removes it afterwards. A killed process cannot clean up, so the
 * next process on the same host removes the folders of dead ones.
 */
export async function withScratch<T>(parent: string, use: (folder: string) => Promise<T>): Promise<T> {
  await mkdir(parent, { recursive: true })
  await removeOrphans(parent)
  const folder = await mkdtemp(join(parent, `keepsake-${hostname()}-${process.pid}-`))
  try {
    return await use(folder)
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 })
  }
}

/** Removes only folders that this host made: on a shared volume, another host's process ids mean nothing here. */
async function removeOrphans(parent: string): Promise<void> {
  for (const entry of await readdir(parent)) {
    const [, host, pid] = NAME.exec(entry) ?? []
    if (host !== hostname() || isAlive(Number(pid))) continue
    await rm(join(parent, entry), { recursive: true, force: true })
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}
