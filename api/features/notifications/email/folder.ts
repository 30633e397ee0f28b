import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Outcome } from '../channel.ts'

/**
 * "Sends" a mail into a folder of this machine, as `{name}.eml`. Readers never see half of one; another attempt replaces the
 * file of the first.
 */
export async function putIntoFolder(folder: string, name: string, bytes: Buffer): Promise<Outcome> {
  const path = join(folder, `${name}.eml`)
  const temporary = `${path}.${process.pid}.tmp`
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await writeFile(temporary, bytes, { mode: 0o600 })
    await rename(temporary, path)
    return { is: 'sent' }
  } catch (error) {
    return { is: 'paused', reason: `the folder cannot be written: ${(error as NodeJS.ErrnoException).code}` }
  }
}
