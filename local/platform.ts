import { join, resolve } from 'node:path'
import { lifecycle } from '../lib/runtime/lifecycle.ts'
import type { Demo } from './demo-file.ts'
import { lockFolder } from './folder-lock.ts'
import type { PageServer } from './page-server.ts'
import { makeContentsPrivate, makePrivate } from './private-folder.ts'
import { openLogFile } from './program-log.ts'
import { type PlatformOptions, startPrograms } from './programs.ts'

export interface Platform {
  demo: Demo
  page: PageServer
  folder: string
  logFile: string
  /** Stops everything in reverse order; resolves when no process is left. */
  close(): Promise<void>
}

const STOP_MS = 20_000

/** Starts the whole platform in this process, on embedded parts. Stops the parts that have started before it throws. */
export async function startPlatform(options: PlatformOptions): Promise<Platform> {
  const folder = resolve(options.folder)
  await makePrivate(folder)
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
    await makeContentsPrivate(folder).catch((error: unknown) =>
      log.warn({ err: error }, 'could not make all of the folder private'),
    )
    const running = await startPrograms({ ...options, folder }, logs, life.onStop)
    return { ...running, folder, logFile: join(folder, 'keepsake.log'), close }
  } catch (error) {
    log.error({ err: error }, 'could not start')
    await close()
    throw error
  }
}
