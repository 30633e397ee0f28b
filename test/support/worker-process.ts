import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { WorkerConfig } from '../../api/worker/config.ts'
import { type RunningWorker, startWorker, type WorkerParts } from '../../api/worker/worker.ts'
import { systemClock } from '../../lib/runtime/clock.ts'
import { loadConfig } from '../../lib/runtime/config.ts'
import { openMemoryBus } from '../../lib/runtime/event-bus/memory.ts'
import { NAMESPACE } from './conversion-world.ts'
import { quietLog } from './quiet-log.ts'

const MAIN = fileURLToPath(new URL('../../api/worker/main.ts', import.meta.url))

export interface WorkerProcess {
  child: ChildProcess
  output(): string
  /** Resolves with the exit status, or the signal that ended it. */
  ended: Promise<number | string>
}

interface Teardown {
  teardown(done: () => void | Promise<void>): void
}
interface Place {
  databaseUrl: string
  storeFolder: string
}

const environment = (o: Place) => ({
  DATABASE_URL: o.databaseUrl,
  STORE_KIND: 'folder',
  STORE_FOLDER: o.storeFolder,
  BUS_KIND: 'memory',
  NAMESPACE,
  HOST: '127.0.0.1',
  HEALTH_PORT: '0',
  METRICS_PORT: '0',
  LEASE_SECONDS: '1',
  POLL_MS: '50',
  SWEEP_SECONDS: '1',
  SWEEP_IDLE_SECONDS: '0',
})

/** The same worker in this process, which starts in no time: for what need not be killed. Closed by the test's end. */
export function workersHere(o: Place & Pick<WorkerParts, 'db' | 'store' | 'cluster'>) {
  const log = quietLog()
  return async (t: Teardown, env: Record<string, string> = {}): Promise<RunningWorker> => {
    const config = loadConfig(WorkerConfig, { ...environment(o), ...env })
    const worker = await startWorker({ ...o, config, bus: openMemoryBus({ log }), log, clock: systemClock })
    t.teardown(() => worker.close())
    return worker
  }
}

/** Starts `api/worker/main.ts` against an API server, as it runs in a pod. Killed at the end of the test. */
export async function workerProcesses(o: Place & { kubeUrl: string; folder: string }) {
  const kubeconfig = join(o.folder, 'kubeconfig.json')
  await writeFile(
    kubeconfig,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'test', cluster: { server: o.kubeUrl, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'test', user: {} }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
      'current-context': 'test',
    }),
  )
  // A test that is itself killed must not leave workers behind.
  const mortal = process.platform === 'linux' ? ['setpriv', '--pdeathsig', 'KILL'] : []
  const [command = '', ...args] = [...mortal, process.execPath, MAIN]
  return (t: Teardown, env: Record<string, string> = {}): WorkerProcess => {
    const child = spawn(command, args, {
      env: {
        PATH: process.env['PATH'],
        KUBECONFIG: kubeconfig,
        ...environment(o),
        ...env,
      },
    })
    t.teardown(() => void child.kill('SIGKILL'))
    let text = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
    }
    const ended = once(child, 'close').then(([code, signal]) => (code as number | null) ?? String(signal))
    return { child, ended, output: () => text }
  }
}
