import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** Paths, the folder's own included, at which users besides the owner may do anything. */
export async function readableByOthers(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true })
  const found: string[] = []
  for (const path of [folder, ...names.map((name) => join(folder, name))]) {
    // A running program removes files while we look.
    const seen = await lstat(path).catch(() => undefined)
    if (seen && !seen.isSymbolicLink() && seen.mode & 0o077) found.push(path)
  }
  return found
}
