import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { freePort } from '../../local/ports.ts'
import { apiSettings } from './api.ts'
import { startApiProcess } from './api-process.ts'
import type { TestDatabase } from './database.ts'
import { eventually } from './eventually.ts'
import type { TestIdentity } from './identity.ts'

interface Teardown {
  teardown(done: () => void | Promise<void>): void
}

interface World {
  database: TestDatabase
  identity: TestIdentity
}

/** `api/main.ts` with several processes on ports of its own, as soon as it is started: it need not listen yet. */
export async function startApiProcesses(t: Teardown, { database, identity }: World, settings: Record<string, string>) {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-processes-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const [port, internalPort, metricsPort] = [await freePort(), await freePort(), await freePort()]
  const { child, errors, exited } = startApiProcess(t, {
    ...apiSettings(database, folder),
    PORT: String(port),
    INTERNAL_PORT: String(internalPort),
    METRICS_PORT: String(metricsPort),
    AUTH_ISSUER: identity.issuer,
    AUTH_AUDIENCE: identity.audience,
    AUTH_JWKS_URL: identity.jwksUrl,
    API_PROCESSES: '2',
    ...settings,
  })
  const logged: Record<string, unknown>[] = []
  createInterface(child.stdout).on('line', (line) => void logged.push(JSON.parse(line) as Record<string, unknown>))

  const get = async (onPort: number, path: string, ms = 10_000) => {
    const given = await fetch(`http://127.0.0.1:${onPort}${path}`, {
      headers: { connection: 'close' },
      signal: AbortSignal.timeout(ms),
    })
    return { status: given.status, headers: given.headers, text: await given.text() }
  }
  /** Of a probe, 0 where nothing answers. */
  const probe = (path: string, ms?: number) =>
    get(internalPort, path, ms).then(
      ({ status }) => status,
      () => 0,
    )
  return {
    child,
    folder,
    errors,
    exited,
    logged,
    port,
    get: (path: string) => get(port, path),
    probe,
    metrics: async () => (await get(metricsPort, '/metrics')).text,
    /** All serve, too: the replica is ready when one of them does. */
    async isReady() {
      await eventually('all listen', () => logged.some(({ msg }) => msg === 'all processes listen'))
      await eventually('the replica is ready', async () => (await probe('/readyz')) === 200, 120_000, 50)
    },
    /** Of the processes that serve, not of the one that replaces them. */
    pids: () => childrenOf(child.pid ?? 0),
  }
}

export const childrenOf = (pid: number) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)

/** Whether there is such a process, and it is no zombie. */
export function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}
