import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { FEATURE_WORKERS, FullWorkerConfig } from '../../api/features.ts'
import { type RunningWorker, startWorker, type WorkerParts } from '../../api/worker/worker.ts'
import { systemClock } from '../../lib/runtime/clock.ts'
import { loadConfig } from '../../lib/runtime/config.ts'
import { openMemoryBus } from '../../lib/runtime/event-bus/memory.ts'
import { openKubeCluster } from '../../lib/runtime/kube/kube-cluster.ts'
import { startApiServer } from './api-server.ts'
import { NAMESPACE, type testStore } from './conversion-world.ts'
import type { TestDatabase } from './database.ts'
import { eventually } from './eventually.ts'
import { AUDIT_KEYS } from './personal-data.ts'
import { quickStart } from './quick-start.ts'
import { quietLog } from './quiet-log.ts'

const MAIN = fileURLToPath(new URL('../../api/worker/main.ts', import.meta.url))
const DYING = fileURLToPath(new URL('dying-pod.ts', import.meta.url))

interface WorkerProcess {
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
  AUDIT_KEYS,
  BUS_KIND: 'memory',
  NAMESPACE,
  ERASURE_KEY: 'a-key-of-the-tests-which-names-users-in-the-ledger',
  HOST: '127.0.0.1',
  HEALTH_PORT: '0',
  METRICS_PORT: '0',
  LEASE_SECONDS: '1',
  POLL_MS: '50',
  SWEEP_SECONDS: '1',
  SWEEP_IDLE_SECONDS: '0',
})

/** The same worker in this process, which starts in no time: for what need not be killed. Closed by the test's end. */
function workersHere(o: Place & Pick<WorkerParts, 'db' | 'store' | 'cluster'>) {
  const log = quietLog()
  return async (t: Teardown, env: Record<string, string> = {}): Promise<RunningWorker> => {
    const config = loadConfig(FullWorkerConfig, { ...environment(o), ...env })
    const worker = await startWorker({
      ...o,
      config,
      features: FEATURE_WORKERS,
      bus: openMemoryBus({ log }),
      log,
      clock: systemClock,
    })
    t.teardown(() => worker.close())
    return worker
  }
}

/** Of which a worker that is killed has one. */
export type PodFeature = 'data-exports' | 'highlights' | 'media' | 'notifications'

/** Says how to reach an API server, in a file. */
async function writeKubeconfig(o: { kubeUrl: string; folder: string }): Promise<string> {
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
  return kubeconfig
}

/** Starts the program against an API server, as a worker runs in a pod. Killed at the end of the test. */
function workerProcesses(program: readonly string[], kubeconfig: string, o: Place) {
  // A test that is itself killed must not leave workers behind.
  const mortal = process.platform === 'linux' ? ['setpriv', '--pdeathsig', 'KILL'] : []
  const [command = '', ...args] = [...mortal, process.execPath, ...program]
  return (t: Teardown, env: Record<string, string> = {}): WorkerProcess => {
    const child = spawn(command, args, {
      env: {
        PATH: process.env['PATH'],
        ...quickStart(),
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

/** How long a worker may take to do something, on a busy machine, in milliseconds. */
const WAIT = 60_000

/** Looks less often than other tests: each look asks Postgres or the API server, while a process has yet to start. */
export const patiently = <T>(what: string, look: () => T | Promise<T>) => eventually(what, look, WAIT, 50)

/** With the access that a worker process gets. To load the client library and make a configuration costs 0.4 s of CPU. */
function openClusterOf(kubeconfig: string) {
  const { KUBECONFIG } = process.env
  process.env['KUBECONFIG'] = kubeconfig
  try {
    return openKubeCluster({ log: quietLog() })
  } finally {
    if (KUBECONFIG === undefined) delete process.env['KUBECONFIG']
    else process.env['KUBECONFIG'] = KUBECONFIG
  }
}

/**
 * Workers as they run in pods, killed where it hurts most; Postgres, the API server and the store live on. Those that are to
 * die have this feature alone, and the one that goes on has all.
 */
export async function dyingWorkers(
  t: Teardown,
  database: TestDatabase,
  place: Awaited<ReturnType<typeof testStore>>,
  feature: PodFeature,
) {
  const server = await startApiServer()
  const kubeconfig = await writeKubeconfig({ ...place, kubeUrl: server.url })
  const cluster = openClusterOf(kubeconfig)
  t.teardown(async () => {
    await cluster.close()
    await server.close()
  })
  const at = { ...place, databaseUrl: database.url }
  return {
    cluster,
    start: workerProcesses([DYING, feature], kubeconfig, at),
    /** `api/worker/main.ts`, with all features. */
    startMain: workerProcesses([MAIN], kubeconfig, at),
    /** The one that goes on. It need not be killed, so it runs in this process. */
    startHere: workersHere({ ...at, db: database.worker, cluster }),
    /** Waits until the worker has killed itself at its failpoint. */
    async died(t: { equal(found: unknown, wanted: unknown, message: string): void }, worker: WorkerProcess) {
      const end = await Promise.race([worker.ended, sleep(WAIT, 'still running', { ref: false })])
      t.equal(end, 'SIGKILL', end === 'SIGKILL' ? 'it died' : worker.output().slice(-2000))
    },
  }
}
