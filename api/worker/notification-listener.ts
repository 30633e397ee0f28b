import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Log } from '../../lib/runtime/log.ts'

export interface NotificationListener {
  close(): Promise<void>
}

/** Receives the payload of a notification, or nothing when notifications may have been missed. */
export type OnNotify = (payload?: string) => void

export interface ListenOptions {
  url: string
  /** By name, which is part of a statement. */
  channels: Readonly<Record<string, OnNotify>>
  log: Log
}

/**
 * Passes notifications on, and calls every `onNotify` after every (re)connection, because Postgres drops those sent
 * meanwhile. Holds a connection of its own, because the pool lends its connections to other callers. Reconnects until
 * closed.
 */
export function listenForNotifications(o: ListenOptions): NotificationListener {
  const stopped = new AbortController()
  let client: pg.Client | undefined

  async function connected(): Promise<void> {
    const mine = new pg.Client({
      connectionString: o.url,
      application_name: 'keepsake_worker listen',
      connectionTimeoutMillis: 5000,
      keepAlive: true,
    })
    client = mine
    const ended = new Promise<void>((resolve) => void mine.once('end', resolve))
    mine.on('error', (error) => o.log.warn({ err: error }, 'notifications interrupted'))
    mine.on('notification', ({ channel, payload }) => o.channels[channel]?.(payload))
    try {
      await mine.connect()
      const channels = Object.keys(o.channels)
      await mine.query(channels.map((channel) => `listen ${channel}`).join('; '))
      for (const channel of channels) o.channels[channel]?.()
      if (!stopped.signal.aborted) await ended
    } finally {
      await mine.end().catch(() => {})
    }
  }

  async function loop(): Promise<void> {
    for (let failures = 0; !stopped.signal.aborted; ) {
      const since = performance.now()
      await connected().catch((error: unknown) => o.log.warn({ err: error }, 'cannot listen to the database'))
      failures = performance.now() - since > 10_000 ? 0 : failures + 1
      const pause = Math.min(10_000, 100 * 2 ** failures)
      await sleep(pause, undefined, { signal: stopped.signal }).catch(() => {})
    }
  }

  const done = loop()
  return {
    async close() {
      stopped.abort()
      await client?.end().catch(() => {})
      await done
    },
  }
}
