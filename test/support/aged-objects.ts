import { readdir, utimes } from 'node:fs/promises'
import { join } from 'node:path'

/** As if the objects of a folder store whose keys begin with `below` had been written so many hours ago. */
export async function ageObjects(storeFolder: string, hours: number, below = ''): Promise<void> {
  const at = new Date(Date.now() - hours * 3_600_000)
  const top = join(storeFolder, 'objects')
  for (const entry of await readdir(top, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile() && path.slice(top.length + 1).startsWith(below)) await utimes(path, at, at)
  }
}
