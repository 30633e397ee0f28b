import { cp, mkdtemp, readFile, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectNats } from 'nats'
import { STREAM } from '../../../lib/contract/events.ts'
import { freePort } from '../../../local/ports.ts'
import { ownLoopback } from './loopback.ts'
import { missingProgram, startProcess, stopProcess, waitFor } from './process.ts'

export interface NatsServer {
  url: string
  /** Its files. */
  data: string
  /** What the stream of all events has. */
  stored(): Promise<{ seq: number; subject: string; text: string }[]>
  /** Killed without warning when asked to, then started again on the same port and files. */
  restart(options?: { kill?: boolean; downMs?: number }): Promise<void>
  /** Ends the server and leaves its files. */
  down(): Promise<void>
  /** Only this user may log in; without, every client may. */
  up(login?: { user: string; password: string }): Promise<void>
  /** How many logins it has refused. */
  refused(): Promise<number>
  /** Copies its files, while it is down. */
  keepCopy(): Promise<void>
  /** Kills it, puts the stream of the copy in the place of its own, and starts it; `only` some parts, such as `msgs`. */
  putCopyBack(only?: (part: string) => boolean): Promise<void>
  stop(): Promise<void>
}

/** The server of a test file, stopped with it. Without the program the file skips, and says so. */
export async function natsOf(t: Tap): Promise<NatsServer> {
  const server = await startNats()
  if (!server) {
    t.plan(0, 'nats-server is not installed')
    process.exit()
  }
  t.teardown(() => server.stop())
  return server
}

interface Tap {
  plan(tests: number, comment: string): void
  teardown(done: () => Promise<void>): void
}

/** A real nats-server with JetStream on a free port of `host`; undefined where it is not installed. */
export async function startNats(host = ownLoopback()): Promise<NatsServer | undefined> {
  if (await missingProgram(['nats-server'])) return undefined
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-nats-'))
  const [data, copy] = [join(folder, 'data'), join(folder, 'copy')]
  const port = await freePort()
  const logFile = join(folder, 'log')

  const start = async (login?: { user: string; password: string }) => {
    const args = ['-js', '-a', host, '-p', String(port), '-sd', data]
    if (login) args.push('--user', login.user, '--pass', login.password)
    const child = await startProcess('nats-server', args, logFile)
    await waitFor('nats-server', child, logFile, () => greets(host, port))
    return child
  }
  let child = await start()

  const url = `nats://${host}:${port}`
  return {
    ...{ url, data },
    async stored() {
      const nc = await connectNats({ servers: url })
      try {
        const { streams } = await nc.jetstreamManager()
        const { state } = await streams.info(STREAM, { deleted_details: true })
        const gone = new Set(state.deleted)
        const found = []
        for (let seq = Math.max(1, state.first_seq); seq <= state.last_seq; seq++) {
          if (gone.has(seq)) continue
          const message = await streams.getMessage(STREAM, { seq })
          found.push({ seq, subject: message.subject, text: message.string() })
        }
        return found
      } finally {
        await nc.close()
      }
    },
    async restart({ kill = false, downMs = 0 } = {}) {
      await stopProcess(child, kill ? 'SIGKILL' : 'SIGTERM')
      await new Promise((resolve) => setTimeout(resolve, downMs))
      child = await start()
    },
    down: () => stopProcess(child),
    async up(login) {
      child = await start(login)
    },
    refused: async () => (await readFile(logFile, 'utf8')).split('authentication error').length - 1,
    keepCopy: () => cp(data, copy, { recursive: true }),
    async putCopyBack(only = () => true) {
      await stopProcess(child, 'SIGKILL')
      for (const part of ['msgs', 'obs', 'meta.inf', 'meta.sum'].filter(only)) {
        const path = join('jetstream', '$G', 'streams', STREAM, part)
        await rm(join(data, path), { recursive: true, force: true })
        await cp(join(copy, path), join(data, path), { recursive: true })
      }
      child = await start()
    },
    async stop() {
      await stopProcess(child)
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** A NATS server speaks first. */
const greets = (host: string, port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, host)
    const end = (heard: boolean) => {
      socket.destroy()
      resolve(heard)
    }
    socket
      .once('data', (d) => end(d.toString().startsWith('INFO')))
      .once('error', () => end(false))
      .setTimeout(1000, () => end(false))
  })
