import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Log } from '../../lib/runtime/log.ts'
import { beat, PATIENCE_MS } from './heartbeat.ts'

export interface NotificationListener extends Notifications {
  close(): Promise<void>
}

/** The notifications of Postgres that reach this process. */
export interface Notifications {
  /** Listens to one more channel, or to one channel for one more part of the program. By name, as in `channels`. */
  on(channel: string, onNotify: OnNotify): void
}

/** Receives the payload of a notification, or nothing when notifications may have been missed. */
export type OnNotify = (payload?: string) => void

export interface ListenOptions {
  url: string
  /** Of the connection, where Postgres lists them. */
  name?: string
  /** By name, which is part of a statement. */
  channels: Readonly<Record<string, OnNotify>>
  log: Log
  /** Of an answer of the server; half of it lies between two questions. */
  patienceMs?: number
}

const CHANNEL = /^[a-z_]+$/

/**
 * Passes notifications on, and calls every `onNotify` after every (re)connection, because Postgres drops those sent
 * meanwhile. Holds a connection of its own, because the pool lends its connections to other callers. Reconnects until
 * closed, also when the server has vanished without a word.
 */
export function listenForNotifications(o: ListenOptions): NotificationListener {
  const stopped = new AbortController()
  const patienceMs = o.patienceMs ?? PATIENCE_MS
  const heard = new Map(Object.entries(o.channels).map(([channel, onNotify]) => [channel, [onNotify]]))
  let client: pg.Client | undefined
  /** The same client, once it listens. */
  let listening: pg.Client | undefined

  const tell = (channel: string, payload?: string) => {
    for (const onNotify of heard.get(channel) ?? []) onNotify(payload)
  }

  async function connected(): Promise<void> {
    const mine = new pg.Client({
      connectionString: o.url,
      application_name: o.name ?? 'keepsake_worker listen',
      connectionTimeoutMillis: 5000,
      query_timeout: patienceMs,
      keepAlive: true,
    })
    client = mine
    let stopBeats = () => {}
    const ended = new Promise<void>((resolve) => void mine.once('end', resolve))
    mine.on('error', (error) => o.log.warn({ err: error }, 'notifications interrupted'))
    mine.on('notification', ({ channel, payload }) => tell(channel, payload))
    try {
      // The promise of `connect` never settles when `end` is called before the connection is there.
      const closed = ended.then(() => Promise.reject(new Error('closed while it connected')))
      await Promise.race([mine.connect(), closed])
      stopBeats = beat(mine, patienceMs, (error) => {
        if (!stopped.signal.aborted) o.log.warn({ err: error }, 'the connection for notifications does not answer')
      })
      const channels = [...heard.keys()]
      if (channels.length > 0) await mine.query(listenTo(channels))
      listening = mine
      // Those that were added while this was under way.
      for (const channel of heard.keys()) if (!channels.includes(channel)) await mine.query(listenTo([channel]))
      for (const channel of heard.keys()) tell(channel)
      if (!stopped.signal.aborted) await ended
    } finally {
      stopBeats()
      listening = undefined
      await mine.end().catch(() => {})
    }
  }

  async function loop(): Promise<void> {
    for (let failures = 0; !stopped.signal.aborted; ) {
      const since = performance.now()
      await connected().catch((error: unknown) => {
        if (!stopped.signal.aborted) o.log.warn({ err: error }, 'cannot listen to the database')
      })
      failures = performance.now() - since > 10_000 ? 0 : failures + 1
      const pause = Math.min(10_000, 100 * 2 ** failures)
      await sleep(pause, undefined, { signal: stopped.signal }).catch(() => {})
    }
  }

  const done = loop()
  return {
    on(channel, onNotify) {
      if (!CHANNEL.test(channel)) throw new Error(`${channel} is no name of a channel`)
      heard.set(channel, [...(heard.get(channel) ?? []), onNotify])
      // A connection that fails here is made anew, and listens to all.
      listening?.query(listenTo([channel])).then(
        () => onNotify(),
        () => {},
      )
    },
    async close() {
      stopped.abort()
      await client?.end().catch(() => {})
      await done
    },
  }
}

const listenTo = (channels: readonly string[]) => channels.map((channel) => `listen ${channel}`).join('; ')
