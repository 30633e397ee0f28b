import { readdir, readFile } from 'node:fs/promises'
import { eventually } from '../../support/eventually.ts'

interface Found {
  pid: number
  command: string
}

/** The processes of a pod, as the machine sees them: their control group names the pod's uid. */
export async function processesOfPod(uid: string): Promise<Found[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const found = await Promise.all(
    pids.map(async (pid): Promise<Found[]> => {
      const [groups, command] = await Promise.all(
        ['cgroup', 'cmdline'].map((file) => readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '')),
      )
      if (!groups?.includes(uid) || !command) return []
      return [{ pid: Number(pid), command: command.replaceAll('\0', ' ') }]
    }),
  )
  return found.flat()
}

/**
 * Stops the encoder of a pod where it is, so that a test can look at a running encode for as long as it takes. Gives
 * what lets it go on; a pod that has ended meanwhile does not mind.
 */
export async function holdEncoder(podUid: string, ms = 60_000): Promise<() => void> {
  const encoder = await eventually(
    `an encoder in the pod ${podUid}`,
    async () => (await processesOfPod(podUid)).find(({ command }) => /^ffmpeg .*-var_stream_map/.test(command)),
    ms,
    20,
  )
  process.kill(encoder.pid, 'SIGSTOP')
  return () => signal(encoder.pid, 'SIGCONT')
}

/** What a power cut does to a pod. */
export async function killPod(uid: string): Promise<void> {
  for (const { pid } of await processesOfPod(uid)) signal(pid, 'SIGKILL')
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
