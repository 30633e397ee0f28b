import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { KINDS } from '../../crds/kinds.ts'
import { ensureBinaries } from '../cluster/driver/build.ts'
import { type ControlPlane, runControlPlane, serverPort } from '../cluster/driver/control-plane.ts'
import { openRunFolder } from '../cluster/driver/run-folder.ts'
import { AUDIT_POLICY, type Audit, auditOf } from './operator-audit.ts'

const run = promisify(execFile)
const HERE = import.meta.dirname
const ROOT = join(HERE, '../..')

/** What charts/keepsake/templates/operator.yaml starts it with. */
const IN_THE_CHART = '--max-semi-space-size=2'

/** Who is measured: this project's operator, or the yardstick in Go. */
export const CONTENDERS = ['keepsake', 'go'] as const
export type Contender = (typeof CONTENDERS)[number]
export const userOf = (contender: Contender) => `bench-${contender}`

export interface BenchWorld {
  plane: ControlPlane
  audit: Audit
  /** A new namespace in which pods may be made. */
  namespace(name: string): Promise<void>
  start(contender: Contender, namespace: string, extra?: Record<string, string>): Promise<Program>
  stop(): Promise<void>
}

export interface Program {
  /** Milliseconds from its start to its first answer. */
  startMs: number
  startedAt: number
  /** Seconds of CPU since its start. */
  cpu(): Promise<number>
  /** MiB now, and the most it ever was. */
  memory(): Promise<{ now: number; peak: number }>
  /** Sum over all series of this name. */
  metric(name: string): Promise<number>
  stop(): Promise<void>
}

/** A control plane without a node or a scheduler, the operator compiled, the yardstick built. */
export async function openWorld(): Promise<BenchWorld> {
  const folder = await mkdtemp(join(tmpdir(), 'ks-bench-'))
  const [, , binaries] = await Promise.all([compile(folder), buildGo(folder), ensureBinaries()])
  const place = await openRunFolder()
  const [policy, log] = [place.file('audit.json'), place.file('audit.log')]
  await writeFile(policy, JSON.stringify(AUDIT_POLICY))
  const plane = await runControlPlane({
    run: place,
    binaries,
    port: await serverPort(),
    withoutScheduler: true,
    apiServerFlags: [`--audit-policy-file=${policy}`, `--audit-log-path=${log}`],
    // By default the controller manager sends 20 requests a second, and both contenders would only wait for it.
    controllerFlags: ['--concurrent-job-syncs=20', '--kube-api-qps=1000', '--kube-api-burst=2000'],
  })
  for (const who of CONTENDERS) {
    await plane.certificates.issue(userOf(who), `/O=system:masters/CN=${userOf(who)}`, [`DNS:${userOf(who)}`])
    await plane.certificates.kubeconfig(userOf(who), plane.server)
  }
  for (const { plural } of KINDS) await plane.kubectl('apply', '--server-side', '-f', join(ROOT, `crds/${plural}.yaml`))
  await plane.kubectl('wait', '--for=condition=Established', 'crd', '--all', '--timeout=30s')
  return {
    plane,
    audit: auditOf(log),
    async namespace(name) {
      await plane.kubectl('create', 'namespace', name)
      for (;;) {
        const made = await plane.kubectl('get', 'serviceaccount', '--namespace', name, '--output=name')
        if (made.includes('serviceaccount/default')) return
        await sleep(100)
      }
    },
    start: (who, namespace, extra) =>
      startProgram(folder, place.file(`${userOf(who)}.kubeconfig`), who, namespace, extra),
    async stop() {
      await plane.stop()
      await place.remove()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function compile(folder: string): Promise<void> {
  const bin = (name: string) => join(ROOT, 'node_modules/.bin', name)
  await run(bin('tsc'), ['-p', join(ROOT, 'tsconfig.build.json'), '--outDir', join(folder, 'dist'), '--noCheck'])
  await writeFile(join(folder, 'package.json'), '{"type":"module"}')
  await run('ln', ['-s', join(ROOT, 'node_modules'), join(folder, 'node_modules')])
}

const buildGo = (folder: string) =>
  run('go', ['build', '-trimpath', '-ldflags=-s -w', '-o', join(folder, 'operator-go'), '.'], {
    cwd: join(HERE, 'operator-go'),
    env: { ...process.env, CGO_ENABLED: '0' },
  })

async function startProgram(
  folder: string,
  kubeconfig: string,
  who: Contender,
  namespace: string,
  extra: Record<string, string> = {},
): Promise<Program> {
  const port = String(await serverPort())
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    KUBECONFIG: kubeconfig,
    WATCH_NAMESPACE: namespace,
    METRICS_PORT: port,
    ...(who === 'keepsake' && OPERATOR_ENV),
    ...extra,
  }
  const flags = (process.env['OPERATOR_NODE_FLAGS'] ?? IN_THE_CHART).split(' ').filter(Boolean)
  const [program, args]: [string, string[]] =
    who === 'go'
      ? [join(folder, 'operator-go'), []]
      : [process.execPath, [...flags, join(folder, 'dist/operator/main.js')]]
  const log = await open(join(folder, `${who}.log`), 'a')
  const startedAt = performance.now()
  const child = spawn(program, args, { env, stdio: ['ignore', log.fd, log.fd], cwd: folder })
  await log.close()
  const url = `http://127.0.0.1:${port}/metrics`
  const answers = () => fetch(url).then((r) => r.text())
  for (const end = Date.now() + 30_000; ; await sleep(10)) {
    if (child.exitCode !== null || Date.now() > end) {
      throw new Error(`${who} did not start: ${(await readFile(join(folder, `${who}.log`), 'utf8')).slice(-2000)}`)
    }
    if (await answers().catch(() => undefined)) break
  }
  const pid = child.pid ?? 0
  return {
    startMs: performance.now() - startedAt,
    startedAt,
    cpu: () => cpuOf(pid),
    memory: () => memoryOf(pid),
    async metric(name) {
      const lines = (await answers()).split('\n').filter((l) => l.startsWith(`${name}{`) || l.startsWith(`${name} `))
      return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0)
    },
    stop: () => stop(child),
  }
}

const OPERATOR_ENV = {
  NODE_ENV: 'production',
  HOST: '127.0.0.1',
  PROGRESS_PORT: '0',
  HEALTH_PORT: '0',
  PROGRESS_KEY: 'k'.repeat(32),
  LEASE_NAME: 'bench-operator-keepsake',
  JOB_IMAGE: 'localhost/keepsake:dev',
  STORE_SECRET: 'store',
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const late = setTimeout(() => child.kill('SIGKILL'), 20_000)
  await ended
  clearTimeout(late)
}

/** In nanoseconds per thread, where `stat` counts hundredths of a second. */
async function cpuOf(pid: number): Promise<number> {
  const threads = await readdir(`/proc/${pid}/task`)
  const texts = await Promise.all(
    threads.map((t) => readFile(`/proc/${pid}/task/${t}/schedstat`, 'utf8').catch(() => '0')),
  )
  return texts.reduce((sum, text) => sum + Number(text.split(' ')[0]), 0) / 1e9
}

async function memoryOf(pid: number): Promise<{ now: number; peak: number }> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8')
  const of = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(text)?.[1]) / 1024
  return { now: of('VmRSS'), peak: of('VmHWM') }
}

/** Load of the last minute and of the last five: who reads the figures should know. */
export const load = async () => (await readFile('/proc/loadavg', 'utf8')).split(' ').slice(0, 2).join(' ')
