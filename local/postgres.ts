import { type ChildProcess, spawn } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Log } from '../lib/runtime/log.ts'
import { freePort } from './ports.ts'
import { type Binaries, exists, findBinaries } from './postgres-files.ts'
import {
  asOrdinaryUser,
  dyingWithUs,
  initialise,
  OWNER_FILE,
  PASSWORD_FILE,
  removeAbandoned,
  stopPredecessor,
} from './postgres-folder.ts'

export interface EmbeddedPostgresOptions {
  /** Kept between starts; created if missing. One server at a time. */
  dataDir: string
  log: Log
  /** Default: a free one. */
  port?: number
  /** For tests: faster, and data is lost in a crash of the machine. */
  fast?: boolean
  /** Has the server start again when it dies, and is called when it does not stay up. Without it, a dead one stays down. */
  onFatal?: (error: Error) => void
  /** Another address to listen on besides 127.0.0.1. The caller adds its clients to pg_hba.conf. */
  listen?: string
  /** Binaries to use instead of the embedded ones, such as /usr/lib/postgresql/15/bin. */
  binaries?: Binaries
}

export interface EmbeddedPostgres {
  /** Superuser, database `keepsake`. */
  url: string
  /** The same over the Unix socket that a `fast` server has in its folder: a sixth less CPU for each statement. */
  socketUrl: string
  port: number
  /** Resolves once the server has shut down cleanly. */
  stop(): Promise<void>
}

/** Nothing survives a crash of the machine, and nothing is tidied up behind databases that live for seconds. */
const FAST = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off', 'max_wal_size=256MB', 'autovacuum=off']
/** A query of many small tables would start two processes each time. Not of binaries that may be too old for the second. */
const ONE_PROCESS = ['max_parallel_workers_per_gather=0', 'io_method=sync']

/**
 * Starts a Postgres server on 127.0.0.1 that ends with this process. Takes over a folder whose owner was killed; throws
 * for a folder whose owner is alive.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const dataDir = resolve(options.dataDir)
  const binaries = options.binaries ?? (await findBinaries())
  const wrap = await asOrdinaryUser()
  await removeAbandoned(dataDir)
  if (await exists(join(dataDir, 'PG_VERSION'))) await stopPredecessor(dataDir, options.log)
  else await initialise(dataDir, binaries, wrap, options)
  await writeFile(join(dataDir, OWNER_FILE), String(process.pid), { mode: 0o600 })
  const mortal = await dyingWithUs()
  const password = await readFile(join(dataDir, PASSWORD_FILE), 'utf8')

  // Another program may take the port before the server binds it; then try another port.
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort())
    const start = () => launch([...wrap.command, ...mortal, binaries.postgres], { ...options, dataDir, port })
    const child = start()
    try {
      const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`
      await untilReady(child, url, options.log)
      await createDatabase(url)
      const at = (host: string) => `postgres://postgres:${password}@${host}:${port}/keepsake`
      const socketUrl = at(encodeURIComponent(socketFolder(options.fast, dataDir) || '127.0.0.1'))
      const kept = options.onFatal && keepUp(child, { ...options, dataDir, onFatal: options.onFatal, start, url })
      return { url: at('127.0.0.1'), socketUrl, port, stop: kept?.stop ?? (() => stop(child)) }
    } catch (error) {
      // While this server ends, it would refuse the folder to the next one.
      await stop(child)
      if (attempt === 3 || options.port !== undefined) throw error
      options.log.warn({ err: error, attempt }, 'embedded Postgres did not start, trying again')
    }
  }
}

/** The path of a socket has at most 107 bytes, and 103 on macOS. */
const socketFolder = (fast: boolean | undefined, dataDir: string): string =>
  fast && Buffer.byteLength(dataDir) < 85 ? dataDir : ''

function launch(
  [command = '', ...chain]: string[],
  { dataDir, port, fast, listen, binaries }: EmbeddedPostgresOptions & { port: number },
): ChildProcess {
  const settings = [
    `listen_addresses=${['127.0.0.1', ...(listen ? [listen] : [])].join(',')}`,
    `unix_socket_directories=${socketFolder(fast, dataDir)}`,
    'max_connections=200',
    'shared_buffers=64MB',
    'password_encryption=scram-sha-256',
    ...(fast ? FAST : []),
    ...(fast && !binaries ? ONE_PROCESS : []),
  ]
  return spawn(command, [...chain, '-D', dataDir, '-p', String(port), ...settings.flatMap((s) => ['-c', s])], {
    stdio: ['ignore', 'ignore', 'pipe'],
    // In a process group of its own: Ctrl-C in the terminal would otherwise stop the server before its clients.
    detached: true,
  })
}

async function untilReady(child: ChildProcess, url: string, log: Log): Promise<void> {
  const lines: string[] = []
  let failure: Error | undefined
  child.once('error', (error) => {
    failure = error
  })
  child.once('exit', (code) => {
    failure ??= new Error(`Postgres ended with ${code}:\n${lines.slice(-8).join('\n')}`)
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    lines.push(...text.trimEnd().split('\n'))
    lines.splice(0, lines.length - 50)
    if (/FATAL|PANIC/.test(text)) log.debug({ postgres: text.trim() }, 'embedded Postgres says')
  })
  // Long enough for recovery after a crash.
  for (const end = Date.now() + 60_000; Date.now() < end; await sleep(25)) {
    if (failure) throw failure
    if (await answers(url)) return
  }
  throw new Error(`Postgres did not become ready:\n${lines.slice(-8).join('\n')}`)
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.end()
    return true
  } catch (error) {
    // 28P01, invalid password: the port belongs to another server.
    if ((error as { code?: string }).code === '28P01') throw new Error('another Postgres server uses this port')
    return false
  }
}

async function createDatabase(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rowCount } = await client.query(`select from pg_database where datname = 'keepsake'`)
    if (!rowCount) await client.query('create database keepsake')
  } finally {
    await client.end()
  }
}

/**
 * How often the server may die or fail to start in a row, with pauses from a quarter of a second to eight seconds. Together
 * they are longer than a query of the programs may take, which keeps a process of the old server alive on macOS.
 */
const MAX_FAILURES = 13
const PAUSE_MS = 250
const MAX_DOUBLINGS = 5
/** A server that has been up for this long has not failed in a row with what came before. */
const STEADY_MS = 60_000

interface Kept {
  dataDir: string
  log: Log
  fast?: boolean
  start: () => ChildProcess
  url: string
  onFatal: (error: Error) => void
}

/**
 * Starts the server again, at the same port, when it ends and was not asked to: killed by the kernel that lacks memory, or
 * after a panic. The programs connect again. A pause also lets processes of the old server end, which stand in the way.
 */
function keepUp(first: ChildProcess, { dataDir, log, fast, start, url, onFatal }: Kept): { stop(): Promise<void> } {
  const stopping = new AbortController()
  const { signal } = stopping
  let child = first

  /** Resolves with what went wrong, once that server has ended. */
  async function startAgain(): Promise<Error | undefined> {
    try {
      await stopPredecessor(dataDir, log)
      if (signal.aborted) return undefined
      child = start()
      await untilReady(child, url, log)
      return undefined
    } catch (error) {
      await stop(child)
      return error as Error
    }
  }

  async function keep(): Promise<void> {
    let failure: Error | undefined
    for (let failures = 0; ; failures++) {
      const since = performance.now()
      await exitOf(child)
      if (signal.aborted) return
      if (performance.now() - since > STEADY_MS) failures = 0
      const cause = failure ?? endOf(child)
      if (failures === MAX_FAILURES)
        return onFatal(new Error(`The embedded Postgres does not stay up: ${cause.message}`, { cause }))
      log.error({ err: cause }, 'embedded Postgres ended, starting it again')
      await sleep((fast ? 1 : PAUSE_MS) * 2 ** Math.min(failures, MAX_DOUBLINGS), undefined, { signal }).catch(
        () => undefined,
      )
      failure = await startAgain()
    }
  }

  const keeping = keep()
  return {
    async stop() {
      stopping.abort()
      await stop(child)
      await keeping
    },
  }
}

const endOf = (child: ChildProcess) => new Error(`it ended with ${child.exitCode ?? child.signalCode}`)

const hasEnded = (child: ChildProcess) =>
  child.pid === undefined || child.exitCode !== null || child.signalCode !== null

async function exitOf(child: ChildProcess): Promise<void> {
  if (!hasEnded(child)) await new Promise<void>((done) => child.once('exit', () => done()))
}

async function stop(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return
  const gone = exitOf(child)
  child.kill('SIGINT')
  const slow = setTimeout(() => child.kill('SIGQUIT'), 15_000)
  await gone
  clearTimeout(slow)
}
