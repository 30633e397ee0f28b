import { rm } from 'node:fs/promises'
import { constants } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Container } from './batch-schemas.ts'
import type { Command, ResolveCommand } from './command.ts'
import { type ContainerProcess, startContainer } from './container-process.ts'
import { ConfigError, containerEnv, expand, rewritePath, type Secrets } from './environment.ts'
import { podsFolder, TERMINATION_LOG } from './folder.ts'
import type { Isolation } from './isolation.ts'
import { numberOf, watchMemory } from './memory-limit.ts'
import { type Output, openOutput } from './output.ts'
import { makePodFolders, type PodFolders } from './pod-folders.ts'
import { finalStatus, runningStatus, terminated } from './pod-status.ts'
import { terminationMessage } from './termination-message.ts'
import { allContainers, type ContainerState, type Pod, type PodStatus, timeOf, timerMs } from './types.ts'

export interface PodRunOptions {
  folder: string
  logFolder: string | undefined
  secrets: Secrets
  /** Variables of every container; those of the pod win. */
  baseEnv: Readonly<Record<string, string>>
  resolveCommand: ResolveCommand
  niceness: number
  /** For containers without a Secret. */
  isolation: Isolation | undefined
  memoryCheckMs: number
}

export interface PodRun {
  /** Resolves when no process of the pod is left, its status is terminal and its folder is removed. */
  ended: Promise<void>
  /** Sends SIGTERM, and SIGKILL after so many seconds. A further call can only shorten that time. */
  stop(graceSeconds: number): void
  output: Output
}

/** Kubernetes restarts a container at once the first time, and then with a growing pause. */
const SIDECAR_RESTART_MS = 200
const SIDECAR_GRACE_MS = 6000

interface Prepared {
  container: Container
  command: Command
  cwd: string
  env: Record<string, string>
  terminationLog: string
  isolation: { by: Isolation; pod: { folder: string; searchPath: string } } | undefined
}

/** Runs one pod to its end: folders, processes, deadline, memory limit. `setStatus` is called with every new status. */
export function runPod(pod: Pod, options: PodRunOptions, setStatus: (next: (pod: Pod) => PodStatus) => void): PodRun {
  const output = openOutput(options.logFolder, `${pod.metadata.namespace}_${pod.metadata.name}`)
  const states = new Map<string, ContainerState>()
  const stopper = openStopper()
  let isLate = false
  const { activeDeadlineSeconds, terminationGracePeriodSeconds } = pod.spec
  const deadline = activeDeadlineSeconds && setTimeout(expire, timerMs(activeDeadlineSeconds))

  function expire(): void {
    isLate = true
    stopper.stop(terminationGracePeriodSeconds)
  }

  const report = () => setStatus((current) => runningStatus(current, states, Date.now()))

  async function runContainer(prepared: Prepared, onStart: (process: ContainerProcess) => void): Promise<void> {
    const { name, resources } = prepared.container
    const startedMs = Date.now()
    const running = startContainer(prepared.command, { ...prepared, niceness: options.niceness, output })
    failpoint('local-cluster.container-started')
    onStart(running)
    if (running.pid !== undefined) {
      states.set(name, { running: { startedAt: timeOf(startedMs) } })
      report()
    }
    const memory = limitMemory(running, resources?.limits?.['memory'], options.memoryCheckMs)
    const exit = await running.exited
    memory?.stop()
    const message = terminationMessage(prepared.terminationLog, prepared.container, exit.exitCode, output)
    const isOutOfMemory = exit.signal === constants.signals.SIGKILL && memory?.wasExceeded() === true
    states.set(name, { terminated: terminated(exit, { startedMs, endedMs: Date.now(), message, isOutOfMemory }) })
  }

  /** Runs a sidecar, and again when it ends, until `stop` is called. */
  function runSidecar(prepared: Prepared): { stop(): Promise<void> } {
    const stopping = new AbortController()
    let current: ContainerProcess | undefined
    const loop = async () => {
      while (!stopping.signal.aborted) {
        await runContainer(prepared, (process) => {
          current = process
          stopper.addSidecar(process)
        })
        await sleep(SIDECAR_RESTART_MS, undefined, { signal: stopping.signal }).catch(() => undefined)
      }
    }
    const ended = loop()
    return {
      async stop() {
        stopping.abort()
        current?.terminate()
        const late = setTimeout(() => current?.kill(), SIDECAR_GRACE_MS)
        await ended
        clearTimeout(late)
      },
    }
  }

  /** As in Kubernetes, such a pod waits, visibly, until it is deleted or its deadline passes. */
  async function waitInVain(error: ConfigError): Promise<void> {
    for (const { name } of allContainers(pod)) {
      states.set(name, { waiting: { reason: error.name, message: error.message } })
    }
    report()
    await stopper.stopped
  }

  async function runAll(root: string): Promise<void> {
    report()
    try {
      const folders = makePodFolders(pod, root)
      const ready = (container: Container) => prepare(pod, container, folders, options)
      const [beside, prepared] = [(pod.spec.initContainers ?? []).map(ready), pod.spec.containers.map(ready)]
      const sidecars = beside.map(runSidecar)
      await Promise.all(prepared.map((container) => runContainer(container, stopper.add)))
      await Promise.all(sidecars.map((sidecar) => sidecar.stop()))
    } catch (error) {
      await waitInVain(error instanceof ConfigError ? error : new ConfigError(String(error), { cause: error }))
    }
  }

  async function run(): Promise<void> {
    const root = join(podsFolder(options.folder), pod.metadata.uid ?? '')
    await runAll(root)
    stopper.close()
    clearTimeout(deadline)
    output.close()
    setStatus((current) => finalStatus(current, states, Date.now(), isLate))
    // A process that left its group may still write there; the next start removes it.
    await rm(root, { recursive: true, force: true, maxRetries: 3 }).catch(() => undefined)
  }

  return { ended: run(), stop: stopper.stop, output }
}

function prepare(pod: Pod, container: Container, folders: PodFolders, options: PodRunOptions): Prepared {
  const mounts = folders.mountsOf(container)
  const terminationLog = folders.terminationLogOf(container)
  const own = containerEnv(container, pod, options.secrets, mounts)
  const env: Record<string, string> = {
    TMPDIR: folders.tmp,
    ...options.baseEnv,
    ...own,
    [TERMINATION_LOG]: terminationLog,
  }
  const here = (text: string) => rewritePath(expand(text, own), mounts)
  const { command, args, workingDir } = container
  const resolved = options.resolveCommand({
    ...container,
    ...(command && { command: command.map(here) }),
    ...(args && { args: args.map(here) }),
  })
  return {
    container,
    command: resolved,
    cwd: workingDir ? rewritePath(workingDir, mounts) : folders.root,
    env,
    terminationLog,
    isolation:
      options.isolation && !hasSecret(container)
        ? { by: options.isolation, pod: { folder: folders.root, searchPath: env['PATH'] ?? '' } }
        : undefined,
  }
}

const hasSecret = ({ env = [], envFrom = [] }: Container) =>
  [...env.map((e) => e.valueFrom?.secretKeyRef), ...envFrom.map((e) => e.secretRef)].some(Boolean)

function limitMemory(running: ContainerProcess, limit: string | number | undefined, everyMs: number) {
  const bytes = numberOf(limit)
  if (bytes === undefined || running.pid === undefined) return undefined
  return watchMemory(running.pid, bytes, everyMs, running.kill)
}

/** Sends SIGTERM once to all, then SIGKILL at the earliest time that a call asked for. */
function openStopper() {
  const processes: ContainerProcess[] = []
  const sidecars: ContainerProcess[] = []
  const stopped = Promise.withResolvers<void>()
  let timer: NodeJS.Timeout | undefined
  let killAt = Number.POSITIVE_INFINITY
  let hasEnded = false
  return {
    stopped: stopped.promise,
    add: (process: ContainerProcess) => void processes.push(process),
    /** A sidecar gets its SIGTERM after the others have ended. */
    addSidecar: (process: ContainerProcess) => void sidecars.push(process),
    stop(graceSeconds: number): void {
      if (killAt === Number.POSITIVE_INFINITY) for (const p of processes) p.terminate()
      stopped.resolve()
      const at = Date.now() + graceSeconds * 1000
      if (hasEnded || at >= killAt) return
      killAt = at
      clearTimeout(timer)
      timer = setTimeout(() => {
        for (const p of [...processes, ...sidecars]) p.kill()
      }, timerMs(graceSeconds))
    },
    /** Clears the timer, which would keep this process alive. */
    close() {
      hasEnded = true
      clearTimeout(timer)
    },
  }
}
