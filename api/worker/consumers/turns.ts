import pg from 'pg'
import type { Log } from '../../../lib/runtime/log.ts'
import { END_TURN, TAKE_TURN } from './queries.ts'

/** The right of this process to handle the events of a consumer. */
export interface Turn {
  /** The process of the server that holds the lock. */
  pid: number
  /** Resolves when the connection ends, and the lock with it. */
  lost: Promise<void>
  end(): Promise<void>
}

export interface Turns {
  /** Undefined while another process has the turn. */
  take(consumer: string): Promise<Turn | undefined>
  close(): Promise<void>
}

interface Connection {
  client: pg.Client
  ended: Promise<void>
}

/**
 * Of all processes, one at a time has the turn of a consumer: an advisory lock of Postgres, on a connection that all turns
 * of this process share. The server takes the lock back when the process dies, and within half a minute when it vanishes.
 */
export function openTurns({ url, log }: { url: string; log: Log }): Turns {
  let connection: Promise<Connection> | undefined

  async function connect(): Promise<Connection> {
    const client = new pg.Client({
      connectionString: url,
      application_name: 'keepsake_worker consumers',
      connectionTimeoutMillis: 5000,
      query_timeout: 10_000,
      keepAlive: true,
      options: '-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3',
    })
    client.on('error', (error) => log.warn({ err: error }, 'lost the connection that holds the turns of consumers'))
    const ended = new Promise<void>((resolve) => void client.once('end', resolve))
    void ended.then(() => {
      connection = undefined
    })
    try {
      await client.connect()
    } catch (error) {
      await client.end().catch(() => {})
      throw error
    }
    return { client, ended }
  }

  async function take(consumer: string): Promise<Turn | undefined> {
    connection ??= connect().catch((error: unknown) => {
      connection = undefined
      throw error
    })
    const { client, ended } = await connection
    try {
      const { rows } = await client.query<{ taken: boolean; pid: number }>(TAKE_TURN, [consumer])
      const [row] = rows
      if (!row?.taken) return undefined
      return { pid: row.pid, lost: ended, end: async () => void (await client.query(END_TURN, [consumer])) }
    } catch (error) {
      // Whether it took the lock is not known: the server takes it back with the connection.
      await client.end().catch(() => {})
      throw error
    }
  }

  return {
    take,
    async close() {
      const open = await connection?.catch(() => undefined)
      await open?.client.end().catch(() => {})
    },
  }
}
