import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { constants as os } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import type { Command } from './command.ts'
import type { Isolation } from './isolation.ts'
import type { Output } from './output.ts'
import { killGroup } from './pod-processes.ts'

export interface Exit {
  exitCode: number
  /** The number of the signal that killed the process. */
  signal?: number
  /** Why the process could not be started. */
  startError?: string
}

export interface ContainerProcess {
  pid: number | undefined
  /** Resolves when the process and its group have ended. */
  exited: Promise<Exit>
  /** Sends SIGTERM to the process alone, as to process 1 of a container. */
  terminate(): void
  /** Sends SIGKILL to the whole group. */
  kill(): void
}

/** The path of a program: as given if it has a folder, else searched in the folders of `path`. */
function findProgram(name: string, path = process.env['PATH'] ?? '', cwd = '.'): string | undefined {
  const candidates = name.includes('/')
    ? [resolve(cwd, name)]
    : path.split(delimiter).map((folder) => join(folder, name))
  return candidates.find((candidate) => {
    try {
      accessSync(candidate, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

const setpriv = process.platform === 'linux' ? findProgram('setpriv') : undefined
const nice = findProgram('nice')

const groups = new Set<number>()
const killGroups = () => {
  for (const left of groups) killGroup(left)
}

/** For a process that exits without closing the cluster. setpriv and the guard handle SIGKILL. */
function killAtExit(group: number): void {
  if (groups.size === 0) process.on('exit', killGroups)
  groups.add(group)
}

function hasEnded(group: number): void {
  groups.delete(group)
  if (groups.size === 0) process.off('exit', killGroups)
}

/**
 * Starts a container's program in a process group of its own, which ends when this process ends in any way: the kernel
 * kills the program (where there is setpriv), and a guard kills the group, ffmpeg included. A process that leaves the
 * group survives until the next cluster cleans the folder up.
 */
export function startContainer(
  { file, args }: Command,
  options: {
    env: Record<string, string>
    cwd: string
    niceness: number
    output: Output
    isolation?: { by: Isolation; pod: { folder: string; searchPath: string } } | undefined
  },
): ContainerProcess {
  const { isolation } = options
  // The wrappers would report this as an exit code, as if the program had run.
  if (!findProgram(file, options.env['PATH'], options.cwd))
    return neverStarted(new Error(`exec: "${file}": executable file not found`))
  const words = [
    ...(nice && options.niceness > 0 ? [nice, '-n', String(options.niceness)] : []),
    ...(setpriv ? [setpriv, '--pdeathsig', 'KILL', '--'] : []),
    ...(isolation ? isolation.by.wrap([file, ...args], isolation.pod) : [file, ...args]),
  ]
  const child = trySpawn(words, options)
  if (child instanceof Error) return neverStarted(child)
  for (const stream of [child.stdout, child.stderr]) if (stream) options.output.follow(stream)
  const { pid } = child
  if (pid !== undefined) killAtExit(pid)
  const stopGuard = guard(pid)
  return {
    pid,
    exited: exitOf(child).finally(stopGuard),
    terminate: () => void child.kill('SIGTERM'),
    kill: () => {
      if (pid !== undefined && child.exitCode === null && child.signalCode === null) killGroup(pid)
    },
  }
}

/** Kills the group when its standard input ends, whose other end only this process holds. */
const GUARD = 'read -r line; kill -s KILL -- "-$1"'

function guard(group: number | undefined): () => void {
  if (group === undefined) return () => undefined
  const args = ['-c', GUARD, 'guard', String(group)]
  const child = spawn('/bin/sh', args, { detached: true, env: {}, stdio: ['pipe', 'ignore', 'ignore'] })
  child.on('error', () => undefined) // without a shell there is no guard; setpriv and the next start remain
  return () => void child.kill('SIGKILL')
}

/** spawn throws some errors (an environment that is too long, a NUL in an argument) instead of emitting them. */
function trySpawn(
  words: readonly string[],
  options: { env: Record<string, string>; cwd: string },
): ChildProcess | Error {
  const { cwd, env } = options
  try {
    return spawn(words[0] ?? '', words.slice(1), { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

const neverStarted = ({ message }: Error): ContainerProcess => ({
  pid: undefined,
  exited: Promise.resolve({ exitCode: 128, startError: message }),
  terminate: () => undefined,
  kill: () => undefined,
})

/** How long to wait for pipes that a detached grandchild holds open. */
const DRAIN_MS = 1000

async function exitOf(child: ChildProcess): Promise<Exit> {
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const exit = await new Promise<Exit>((resolve) => {
    // Not removed: a signal that cannot be sent later also emits 'error'.
    child.on('error', (error) => resolve({ exitCode: 128, startError: error.message }))
    child.once('exit', (code, signal) => resolve(signal ? killedBy(os.signals[signal]) : { exitCode: code ?? 1 }))
  })
  if (child.pid === undefined) return exit
  // As when process 1 of a container ends: all other processes end.
  killGroup(child.pid)
  hasEnded(child.pid)
  let timer: NodeJS.Timeout | undefined
  await Promise.race([closed, new Promise((resolve) => (timer = setTimeout(resolve, DRAIN_MS)))])
  clearTimeout(timer)
  child.stdout?.destroy()
  child.stderr?.destroy()
  return exit
}

const killedBy = (signal: number): Exit => ({ exitCode: 128 + signal, signal })
