import { readdir, readFile, readlink } from 'node:fs/promises'
import { runWith } from './cluster.ts'

/** Who a process is, so that another one that gets its number later is not taken for it. */
export interface ProcessIdentity {
  pid: number
  /** When it started, in whatever words this system has for that. */
  start: string
  /** Numbers only mean something within one of these. */
  pidNamespace: string
  boot: string
}

/** The identity of this process. */
export async function ownIdentity(): Promise<ProcessIdentity> {
  const start = await startOf(process.pid)
  if (!start) throw new Error('This system does not tell when a process started')
  return { pid: process.pid, start, ...(await here()) }
}

/** Whether it has ended for certain; one that we cannot see from here may still run. */
export async function hasEnded({ pid, start, pidNamespace, boot }: ProcessIdentity): Promise<boolean> {
  const now = await here()
  if (boot !== now.boot) return true
  return pidNamespace === now.pidNamespace && (await startOf(pid)) !== start
}

async function here(): Promise<Pick<ProcessIdentity, 'pidNamespace' | 'boot'>> {
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')
  return { pidNamespace: await readlink('/proc/self/ns/pid').catch(() => ''), boot: boot.trim() }
}

async function startOf(pid: number): Promise<string | undefined> {
  if (process.platform !== 'linux') {
    return (await runWith('', ['ps', '-o', 'lstart=', '-p', String(pid)]).catch(() => '')).trim() || undefined
  }
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // The second field is the program's name and may hold anything; what follows its bracket does not.
  const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return state === 'Z' ? undefined : fields[18]
}

export interface SeenProcess {
  pid: number
  /** What it runs, without what Linux adds when the file was replaced meanwhile. */
  executable: string
  args: string[]
}

/** Everything that runs here, where Linux shows it. */
export async function everyProcess(): Promise<SeenProcess[]> {
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name)).map(Number)
  const seen = await Promise.all(pids.map(look))
  return seen.filter((one) => one !== undefined)
}

async function look(pid: number): Promise<SeenProcess | undefined> {
  try {
    const executable = (await readlink(`/proc/${pid}/exe`)).replace(/ \(deleted\)$/, '')
    return { pid, executable, args: (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0') }
  } catch {
    return undefined // ended while we looked, or belongs to the kernel
  }
}
