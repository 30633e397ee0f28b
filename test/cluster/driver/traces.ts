import { setTimeout as sleep } from 'node:timers/promises'
import { everyProcess } from './proc.ts'

/** Ends what a cluster under this folder has left on the machine outside it. */
export async function removeTraces(path: string, _name: string): Promise<void> {
  await killPrograms(path)
}

/** Our own programs with this run's unique folder in their arguments: no number is trusted. */
async function killPrograms(path: string): Promise<void> {
  for (let left = 50; left > 0; left--) {
    const running = (await everyProcess()).filter(
      (p) => isOurs(p.executable) && p.args.some((a) => a.includes(`${path}/`)),
    )
    if (running.length === 0) return
    for (const { pid } of running) kill(pid)
    await sleep(100)
  }
  throw new Error(`Processes of ${path} cannot be ended`)
}

const isOurs = (executable: string) => /\/(kubernetes|etcd|containerd|containerd-shim-runc-v2)$/.test(executable)

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
