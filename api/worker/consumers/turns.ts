import pg from 'pg'
import type { Log } from '../../../lib/runtime/log.ts'
import { ReadOnlyServer } from '../../db/errors.ts'
import { beat, PATIENCE_MS } from '../../db/heartbeat.ts'
import { withOptions } from '../../db/url.ts'
import { END_TURN, TAKE_TURN } from './queries.ts'

/** The right of this process to handle the events of a consumer. */
export interface Turn {
  /** The process of the server that holds the lock. */
  pid: number
  /** Of the database: another one after a promotion or a restore, which may lack the latest transactions. */
  history: string
  /** Resolves when the connection ends, and the lock with it. */
  lost: Promise<void>
  end(): Promise<void>
}

export interface Turns {
  /** Undefined while another process has the turn. */
  take(consumer: string): Promise<Turn | undefined>
  close(): Promise<void>
}

export interface TurnsDeps {
  url: string
  log: Log
  /** Of an answer of the server; half of it lies between two questions. */
  patienceMs?: number
}

interface Connection {
  client: pg.Client
  ended: Promise<void>
}

/**
 * Of all processes, one at a time has the turn of a consumer: an advisory lock of Postgres, on a connection that all turns
 * of this process share. The server takes the lock back when the process dies, and within half a minute when it vanishes.
 */
export function openTurns({ url, log, patienceMs = PATIENCE_MS }: TurnsDeps): Turns {
  let connection: Promise<Connection> | undefined

  async function connect(): Promise<Connection> {
    const client = new pg.Client({
      // The server gives the turns away later than this process stops.
      ...withOptions(
        url,
        '-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c tcp_user_timeout=25s',
      ),
      application_name: 'keepsake_worker consumers',
      connectionTimeoutMillis: 5000,
      query_timeout: patienceMs,
      keepAlive: true,
    })
    client.on('error', (error) => log.warn({ err: error }, 'lost the connection that holds the turns of consumers'))
    const { promise: ended, resolve: end } = Promise.withResolvers<void>()
    client.once('end', end)
    // The server gives the turns to another process meanwhile.
    const stopBeats = beat(client, patienceMs, (error) => {
      log.warn({ err: error }, 'the connection that holds the turns of consumers does not answer')
      end()
    })
    void ended.then(() => {
      stopBeats()
      connection = undefined
    })
    try {
      await client.connect()
    } catch (error) {
      end()
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
      const { rows } = await client.query<{ taken: boolean; pid: number; recovers: boolean; history: string }>(
        TAKE_TURN,
        [consumer],
      )
      const [row] = rows
      if (row?.recovers) throw new ReadOnlyServer()
      if (!row?.taken) return undefined
      return {
        pid: row.pid,
        history: row.history,
        lost: ended,
        end: async () => void (await client.query(END_TURN, [consumer])),
      }
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
