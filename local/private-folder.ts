import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** The names that this project uses in a data folder. Other files in it (`--data .`) keep their permissions. */
const OURS = [
  ...['cluster', 'identity', 'jobs', 'mail', 'objects', 'postgres', 'samples'],
  ...['demo.json', 'keepsake.log', 'keepsake.log.1', 'ports.json', 'settings.json'],
  ...['lock', 'lock-journal', 'lock.pid'],
]

/** Creates the folder, or takes its permissions from other users, who then cannot reach anything inside it. */
export async function makePrivate(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await chmod(folder, 0o700)
}

/**
 * Removes other users' permissions from the contents, which earlier versions or a copy may have left readable. Adds this
 * user's permission to search folders: earlier versions made some without it, which only root can use.
 */
export async function makeContentsPrivate(folder: string): Promise<void> {
  const found = (await readdir(folder)).filter((name) => OURS.includes(name))
  if (found.length === 0) return
  // The program is much faster than a walk in JavaScript when there are many objects.
  const paths = found.map((name) => join(folder, name))
  // It says a line for each path that it may not change, of which there may be as many as objects.
  const [status, signal] = await once(spawn('chmod', ['-R', 'go-rwx,u+X', ...paths], { stdio: 'ignore' }), 'close')
  if (status !== 0) throw new Error(`chmod ended with ${status ?? signal}`)
}
