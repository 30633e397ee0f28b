import { execFile } from 'node:child_process'
import { chmod, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** What this project keeps in a data folder. The folder may hold other things (`--data .`), whose rights stay as they are. */
const OURS = [
  ...['cluster', 'identity', 'jobs', 'objects', 'postgres', 'samples'],
  ...['demo.json', 'keepsake.log', 'keepsake.log.1', 'ports.json', 'settings.json'],
  ...['lock', 'lock-journal', 'lock.pid'],
]

/** Makes the folder, or closes the one that exists: from here on no other user reaches anything inside it. */
export async function makePrivate(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await chmod(folder, 0o700)
}

/** Takes the rights of other users off the contents, which earlier versions or a copy may have left readable. */
export async function closeContents(folder: string): Promise<void> {
  const found = (await readdir(folder)).filter((name) => OURS.includes(name))
  if (found.length === 0) return
  // A program instead of a walk of our own: 100,000 objects take half a second.
  await promisify(execFile)('chmod', ['-R', 'go-rwx', ...found.map((name) => join(folder, name))])
}
