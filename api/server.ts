import type { RequestListener } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../lib/runtime/clock.ts'
import type { Log } from '../lib/runtime/log.ts'
import type { ObjectStore } from '../lib/runtime/object-store/object-store.ts'
import { createApp, createInternalApp } from './app.ts'
import { watchDays } from './audit/days.ts'
import { openMasterKeys } from './audit/master-keys.ts'
import { openPersonalData } from './audit/personal-data.ts'
import { openRefusals } from './audit/refusals.ts'
import { openAuth } from './auth/open-auth.ts'
import { openServiceAuth } from './auth/services.ts'
import type { ApiConfig } from './config.ts'
import type { Database } from './db/db.ts'
import { listenForNotifications } from './db/notification-listener.ts'
import { openLedgerWatch } from './features/erasure/ledger-watch.ts'
import { openLinks } from './features/media/delivery/links.ts'
import { metricsListener, openMetrics } from './health/metrics.ts'
import { probes } from './health/probes.ts'
import { readiness } from './health/readiness.ts'
import { openBodies } from './http/bodies.ts'
import { openEventStreams } from './http/event-streams.ts'
import { openServer } from './http/open-server.ts'
import { databaseShares } from './limits/capacity.ts'
import { fairDatabase } from './limits/fair-database.ts'
import { openLimits } from './limits/limits.ts'
import { openSharedCounters } from './limits/queries.ts'
import { openGate } from './processes/gate.ts'
import type { Siblings } from './processes/siblings.ts'
import { cursors } from './requests/cursor.ts'

export interface RunningApi {
  publicUrl: string
  internalUrl: string
  /** Empty where there are siblings. */
  metricsUrl: string
  /** Reports not ready, waits `DRAIN_SECONDS`, refuses new connections, and ends after the last response. */
  close(): Promise<void>
}

export interface ApiParts {
  config: ApiConfig
  db: Database
  store: ObjectStore
  log: Log
  clock: Clock
  /** The other processes of the replica: they answer probes together, and the metrics of all are served elsewhere. */
  siblings?: Siblings | undefined
}

const FINISH_MS = 60_000
const INTERNAL_FINISH_MS = 2000

/** Serves the API on three ports: public, cluster-internal and metrics. Port 0 selects a free port. */
export async function startApi(parts: ApiParts): Promise<RunningApi> {
  const { config, db, log, clock, siblings } = parts
  const auth = openAuth({ ...parts, onRevoked: (user) => streams.recheck(user) })
  const services = openServiceAuth(parts)
  const bodies = openBodies({
    maxStreams: config.MAX_BODIES,
    factor: config.RATE_LIMIT_FACTOR,
    onRefused: (arrival) => metrics.shed(arrival),
  })
  const rules = databaseShares(db.pool.options.max, config.RATE_LIMIT_FACTOR)
  const fair = fairDatabase(db, rules, () => metrics.shed('transaction'))
  const gauges = {
    keyAge: () => auth.keys.ageSeconds(),
    revocationAge: () => auth.revocations.ageSeconds(),
    bodies: bodies.taken,
    transactions: fair.taken,
    eventStreams: () => streams.open(),
  }
  const metrics = openMetrics(gauges, siblings?.number)
  const now = () => performance.now()
  const limits = openLimits({
    factor: config.RATE_LIMIT_FACTOR,
    shared: openSharedCounters({ pool: db.pool, log, now }),
    now,
    onRefused: metrics.limited,
  })
  const ledger = openLedgerWatch({ db, store: parts.store, log })
  const state = readiness(db, ledger.ready)
  const streams = openEventStreams({
    most: config.MAX_EVENT_STREAMS,
    log,
    closing: () => state.draining(),
    onRefused: () => metrics.shed('event-stream'),
    onEnded: metrics.streamEnded,
  })
  const [stopDays] = await Promise.all([watchDays(db, log), auth.keys.start(), services?.keys.start()])
  ledger.start()
  auth.revocations.start()

  const stopAuth = async () => {
    stopDays()
    void ledger.stop()
    auth.keys.stop()
    services?.keys.stop()
    await Promise.all([auth.revocations.stop(), auth.lastUses.close()])
  }

  const refusals = openRefusals({ db, log })
  const personalData = openPersonalData({ db, masters: openMasterKeys(config.AUDIT_KEYS) })
  const notifications = listenForNotifications({
    url: config.DATABASE_URL,
    name: 'keepsake_api listen',
    // The user who signed out, or whose memberships changed.
    channels: { access: auth.recheck, audit_keys: personalData.forget },
    log,
  })
  const links = openLinks({ baseUrl: `${config.PUBLIC_URL}${config.BASE_PATH}`, keys: config.LINK_KEYS, clock })
  const deps = {
    ...parts,
    db: fair,
    links,
    cursors: cursors(config.CURSOR_KEY, clock),
    refusals,
    personalData,
    notifications,
    recheckSignIns: auth.recheck,
  }
  const options = {
    db: fair,
    log,
    clock,
    refusals,
    personalData,
    basePath: config.BASE_PATH,
    checkResponses: config.CHECK_RESPONSES,
    onServed: metrics.served,
    closing: () => state.draining(),
  }
  const app = createApp(
    { ...deps, auth: { ...auth, db: fair, refusals }, ready: state.ready },
    {
      ...options,
      authenticate: auth.authenticate,
      limits,
      bodies,
      streams,
      trustProxyHops: config.TRUST_PROXY_HOPS,
    },
  )
  // Services of the cluster reach it without a proxy, and their number is that of the configuration: no limits.
  const internalApp =
    services && createInternalApp(deps, { ...options, authenticate: services.authenticate, trustProxyHops: 0 })
  const gate = openGate({ ready: state.ready, metrics: metrics.read, log, isOpen: !siblings })
  const listeners = [
    app as RequestListener,
    probes(siblings ?? { ready: state.ready }, log, internalApp && gate.guard(internalApp as RequestListener)),
    ...(siblings ? [] : [metricsListener(metrics.read)]),
  ]
  const servers = listeners.map((listener) => openServer(listener, { log }))
  const ports = [config.PORT, config.INTERNAL_PORT, config.METRICS_PORT]
  const listen = (some: number[]) => Promise.all(some.map(async (i) => servers[i]?.listen(config.HOST, ports[i] ?? 0)))
  try {
    await (siblings
      ? gate.open(siblings, { probes: () => listen([1]), requests: () => listen([0]) })
      : listen([0, 1, 2]))
  } catch (error) {
    await Promise.all([stopAuth(), refusals.close(), notifications.close()])
    await Promise.all(servers.map((server) => server.close(0)))
    throw error
  }
  const [publicUrl = '', internalUrl = '', metricsUrl = ''] = servers.map((server) => server.url())
  log.info({ publicUrl: config.PUBLIC_URL, listening: { publicUrl, internalUrl, metricsUrl } }, 'listening')

  let closed: Promise<void> | undefined
  async function close(): Promise<void> {
    state.drain()
    // Load balancers notice at their next probe. Until then they send new requests, which are served.
    await sleep(config.DRAIN_SECONDS * 1000)
    const [begun, [main, ...others]] = [performance.now(), servers]
    // No new connections from here on, or clients that were sent away would come back.
    const closed = main?.close(FINISH_MS)
    await streams.close()
    await closed
    // They run without a request. At most what is left of the minute, and a moment: see program.ts.
    await auth.exchanges.close(Math.max(INTERNAL_FINISH_MS, begun + FINISH_MS - performance.now()))
    await Promise.all([refusals.close(), notifications.close()])
    const [internal, ...rest] = others
    await internal?.close(INTERNAL_FINISH_MS)
    await Promise.all(rest.map((server) => server.close(0)))
    await stopAuth()
  }
  return {
    publicUrl,
    internalUrl,
    metricsUrl,
    close() {
      closed ??= close()
      return closed
    },
  }
}
