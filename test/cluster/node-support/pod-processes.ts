import { readdirSync, readFileSync } from 'node:fs'
import { eventually } from '../../support/eventually.ts'

interface Found {
  pid: number
  command: string
}

/** The processes of a pod, as the machine sees them: their control group names the pod's uid. */
export function processesOfPod(uid: string): Found[] {
  return pids()
    .filter((pid) => read(pid, 'cgroup').includes(uid))
    .map((pid) => ({ pid, command: read(pid, 'cmdline').replaceAll('\0', ' ') }))
}

/**
 * Stops the encoder of a pod where it is, so that a test can look at a running encode for as long as it takes. Gives
 * what lets it go on; a pod that has ended meanwhile does not mind.
 */
export async function holdEncoder(podUid: string, ms = 400_000): Promise<() => void> {
  const encoder = await eventually(`an encoder in the pod ${podUid}`, () => stoppedEncoder(podUid), ms)
  return () => signal(encoder, 'SIGCONT')
}

/** One that was just ending takes the signal as well, and another follows it: only one that stands still is held. */
function stoppedEncoder(podUid: string): number | undefined {
  const pid = encoderOf(podUid)
  if (pid === undefined) return undefined
  signal(pid, 'SIGSTOP')
  return /\) T /.test(read(pid, 'stat')) ? pid : undefined
}

/** Looks at little, because it looks often: a short encode must not get away. */
const encoderOf = (podUid: string): number | undefined =>
  pids().find(
    (pid) =>
      read(pid, 'comm') === 'ffmpeg\n' &&
      read(pid, 'cmdline').includes('-var_stream_map') &&
      read(pid, 'cgroup').includes(podUid),
  )

/** What a power cut does to a pod. */
export function killPod(uid: string): void {
  for (const { pid } of processesOfPod(uid)) signal(pid, 'SIGKILL')
}

const pids = () =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)

/** Empty for a process that has ended meanwhile. */
function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
