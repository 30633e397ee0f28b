import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { lifecycle } from '../lib/runtime/lifecycle.ts'
import type { Demo } from './demo-file.ts'
import { lockFolder } from './folder-lock.ts'
import type { PageServer } from './page-server.ts'
import { openLogFile } from './program-log.ts'
import { startPrograms } from './programs.ts'

export interface PlatformOptions {
  /** Everything is kept here; made when missing. One platform at a time. */
  folder: string
  /** The API's public port: this one or none. Left out: the one of the last start, 8080, or a free one. */
  port?: number | undefined
  /** False takes any free ports: for tests. */
  usualPorts?: boolean
  /** For tests: trades safety of the data for speed. */
  fastDatabase?: boolean
  logLevel?: string
  /** Told what is being started, in a few words for people. */
  onStatus?: (text: string) => void
  /** One of the programs can neither go on nor be repaired. */
  onFatal?: (error: Error) => void
}

export interface Platform {
  demo: Demo
  page: PageServer
  folder: string
  logFile: string
  /** Ends everything in reverse order; resolves when no process is left. */
  close(): Promise<void>
}

const STOP_MS = 20_000

/** The whole platform in this process, on embedded parts. What has started partly is stopped again before this throws. */
export async function startPlatform(options: PlatformOptions): Promise<Platform> {
  const folder = resolve(options.folder)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const lock = lockFolder(folder)
  const logs = openLogFile(folder, options.logLevel ?? 'info')
  const log = logs.of('local')
  const life = lifecycle(log, { deadlineMs: STOP_MS, signals: false })
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= life.stop('asked to').finally(() => {
      logs.close()
      lock.release()
    })
    return closed
  }
  try {
    const running = await startPrograms({ ...options, folder }, logs, life.onStop)
    return { ...running, folder, logFile: join(folder, 'keepsake.log'), close }
  } catch (error) {
    log.error({ err: error }, 'could not start')
    await close()
    throw error
  }
}
