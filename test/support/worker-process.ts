import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NAMESPACE } from './conversion-world.ts'

const MAIN = fileURLToPath(new URL('../../api/worker/main.ts', import.meta.url))

export interface WorkerProcess {
  child: ChildProcess
  output(): string
  /** Resolves with the exit status, or the signal that ended it. */
  ended: Promise<number | string>
}

/** Starts `api/worker/main.ts` against an API server, as it runs in a pod. Killed at the end of the test. */
export async function workerProcesses(o: {
  databaseUrl: string
  kubeUrl: string
  folder: string
  storeFolder: string
}) {
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
  return (t: { teardown(done: () => void): void }, env: Record<string, string> = {}): WorkerProcess => {
    const child = spawn(command, args, {
      env: {
        PATH: process.env['PATH'],
        KUBECONFIG: kubeconfig,
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
