import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmod,
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Log } from '../lib/runtime/log.ts'
import type { Binaries } from './postgres-files.ts'
import { describeProcess, isAlive, sendSignal, waitForExit } from './process-table.ts'

const run = promisify(execFile)

export const PASSWORD_FILE = 'keepsake.password'
export const OWNER_FILE = 'keepsake.owner'

export interface Wrapper {
  command: string[]
  /** The user that must own the data folder, if it is not the current one. */
  uid: number | undefined
}

/** Postgres refuses to run as root. In a user namespace it does not see root and can still read root's 0700 folders. */
export async function asOrdinaryUser(): Promise<Wrapper> {
  if (process.getuid?.() !== 0) return { command: [], uid: undefined }
  const unshare = ['unshare', '--user', '--map-user=1000', '--map-group=1000']
  if (await works([...unshare, 'true'])) return { command: unshare, uid: undefined }
  // Containers may forbid namespaces, and still allow root to change to another user.
  const setpriv = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
  if (await works([...setpriv, 'true'])) return { command: setpriv, uid: 65_534 }
  throw new Error('Postgres cannot run as root here: neither unshare nor setpriv works. Start as an ordinary user.')
}

const works = ([command = '', ...args]: string[]) =>
  run(command, args).then(
    () => true,
    () => false,
  )

/** Initialises a temporary folder and renames it, so a kill on the way leaves no incomplete data folder. */
export async function initialise(
  dataDir: string,
  binaries: Binaries,
  wrap: Wrapper,
  options: { fast?: boolean; binaries?: Binaries },
): Promise<void> {
  const work = await mkdtemp(`${dataDir}.new-${process.pid}-`)
  try {
    const password = randomBytes(24).toString('hex')
    const passwordFile = join(work, 'password')
    await writeFile(passwordFile, password, { mode: 0o600 })
    const data = join(work, 'data')
    await mkdir(data, { mode: 0o700 })
    if (wrap.uid !== undefined) for (const path of [work, passwordFile, data]) await chown(path, wrap.uid, wrap.uid)
    const args = ['-D', data, '-U', 'postgres', `--pwfile=${passwordFile}`, '--auth=scram-sha-256', '-E', 'UTF8']
    const locale = `--locale=${process.platform === 'linux' ? 'C.UTF-8' : 'C'}`
    const [command = '', ...rest] = [...wrap.command, ...(await dyingWithUs()), binaries.initdb, ...args, locale]
    // Each connection computes what its password is worth. Binaries of one's own may be too old for the second.
    const quick = [
      ...(options.fast ? ['--no-sync'] : []),
      ...(options.binaries ? [] : ['--set=scram_iterations=1', '--no-data-checksums']),
    ]
    await run(command, [...rest, ...(options.fast ? quick : [])])
    await writeFile(join(data, PASSWORD_FILE), password, { mode: 0o600 })
    await rename(data, dataDir)
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

/** Makes the parent folder, and removes the temporary folders of initialisations that were killed. */
export async function removeAbandoned(dataDir: string): Promise<void> {
  await mkdir(dirname(dataDir), { recursive: true })
  const prefix = `${basename(dataDir)}.new-`
  for (const name of await readdir(dirname(dataDir))) {
    const pid = Number(name.slice(prefix.length).split('-')[0])
    if (!name.startsWith(prefix) || (await isAlive(pid))) continue
    // The initdb of a killed process may run for another moment and create files meanwhile.
    await rm(join(dirname(dataDir), name), { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  }
}

/** Linux only: when this process dies, the kernel sends SIGINT to the program, which is a fast shutdown to Postgres. */
export async function dyingWithUs(): Promise<string[]> {
  const chain = ['setpriv', '--pdeathsig', 'INT']
  return (await works([...chain, 'true'])) ? chain : []
}

/** Stops the server in the folder if the process that started it has died, and what a server that was killed left running. */
export async function stopPredecessor(dataDir: string, log: Log): Promise<void> {
  await chmod(dataDir, 0o700)
  await stopServer(dataDir, log)
  await endOrphans(dataDir, log)
}

async function stopServer(dataDir: string, log: Log): Promise<void> {
  const file = join(dataDir, 'postmaster.pid')
  const text = await readFile(file, 'utf8').catch(() => '')
  const pid = Number(text.split('\n')[0])
  if (!pid || !(await isAlive(pid))) return
  const seen = await describeProcess(pid)
  // A process that is ending has no command line any more.
  if (!seen?.command) return
  if (!seen.command.includes(dataDir)) {
    if (await worksElsewhere(pid, dataDir)) await renumber(file, text)
    return
  }
  const owner = Number(await readFile(join(dataDir, OWNER_FILE), 'utf8').catch(() => '0'))
  // The process that started the server is still its parent, so it is alive.
  if (owner > 0 && seen.parent === owner) throw new Error(`${dataDir} is in use by process ${owner}`)
  log.warn({ pid }, 'stopping the Postgres server of a predecessor')
  // It got this signal when its parent died, and may end at any moment.
  if (!sendSignal(pid, 'SIGINT') || (await waitForExit(pid, 15_000))) return
  // Postgres itself gives its processes 5 s to end before it kills them.
  if (sendSignal(pid, 'SIGQUIT') && !(await waitForExit(pid, 30_000)))
    throw new Error(`The Postgres server ${pid} in ${dataDir} does not stop`)
}

/**
 * Ends the processes of a server that was killed. One in the middle of a query notices only at the end of the query, and
 * Postgres refuses to start again until then. Finds none without /proc, where the next server has to wait for them.
 */
async function endOrphans(dataDir: string, log: Log): Promise<void> {
  const folder = await realpath(dataDir)
  const worksHere = async (pid: number | string) => (await workingFolderOf(pid)) === folder
  for (const name of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(name) || !(await worksHere(name))) continue
    const pid = Number(name)
    const seen = await describeProcess(pid)
    // The parent of those of a running server is that server, which works here, too.
    if (!seen?.command.startsWith('postgres: ') || (await worksHere(seen.parent))) continue
    log.warn({ pid, command: seen.command }, 'ending a process of a Postgres server that was killed')
    // What the server itself sends all others when one of them crashes.
    if (sendSignal(pid, 'SIGQUIT') && !(await waitForExit(pid, 15_000))) sendSignal(pid, 'SIGKILL')
  }
}

const workingFolderOf = (pid: number | string) => readlink(`/proc/${pid}/cwd`).catch(() => undefined)

/**
 * Whether the process is certainly not the server of the folder, which has it as its working directory, by whatever path
 * it was started. False where this cannot be seen: without /proc, and for another user's process, which Postgres ignores.
 */
async function worksElsewhere(pid: number, dataDir: string): Promise<boolean> {
  const working = await workingFolderOf(pid)
  return working !== undefined && working !== (await realpath(dataDir))
}

/**
 * For a lock file with a process id that another program has by now, as after a restart of a container. Postgres would
 * take that program for a running server and refuse the folder; Postgres ignores the id of its parent, which is this
 * process. The rest of the file stays: it names the shared memory by which Postgres sees whether processes of the old
 * server still live.
 */
async function renumber(file: string, text: string): Promise<void> {
  const owner = await stat(file).catch(() => undefined)
  if (!owner) return
  const written = `${file}.new`
  await writeFile(written, text.replace(/^\d+/, String(process.pid)), { mode: 0o600, flush: true })
  await chown(written, owner.uid, owner.gid)
  // A server that was started meanwhile has a file of its own, and ends when it finds another one in its place.
  if ((await readFile(file, 'utf8').catch(() => '')) === text) await rename(written, file)
  else await rm(written)
}
