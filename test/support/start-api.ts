import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ApiConfig } from '../../api/config.ts'
import { type RunningApi, startApi } from '../../api/server.ts'
import { type Clock, systemClock } from '../../lib/runtime/clock.ts'
import { loadConfig } from '../../lib/runtime/config.ts'
import { openObjectStore } from '../../lib/runtime/open-object-store.ts'
import type { TestDatabase } from './database.ts'
import { readableLog } from './serve.ts'

interface Teardown {
  teardown(done: () => Promise<void>): void
}

export interface StartedApi extends RunningApi {
  port: number
  config: ApiConfig
  logged: Record<string, unknown>[]
}

/** What an API under test is configured with, besides its identity provider. */
export const apiSettings = (database: Pick<TestDatabase, 'url'>, folder: string) => ({
  HOST: '127.0.0.1',
  PORT: '0',
  INTERNAL_PORT: '0',
  METRICS_PORT: '0',
  PUBLIC_URL: 'http://127.0.0.1:8080',
  DATABASE_URL: database.url,
  STORE_KIND: 'folder',
  STORE_FOLDER: folder,
  LINK_KEYS: JSON.stringify({ current: 'k1', keys: { k1: 'A'.repeat(43) } }),
  CURSOR_KEY: 'B'.repeat(43),
  CHECK_RESPONSES: 'true',
  // Tests ask as fast as they can; those of the limits say otherwise.
  RATE_LIMIT_FACTOR: '0',
  DRAIN_SECONDS: '0',
})

/** The whole API in this process, on free ports, with a folder store of its own. */
export async function startTestApi(
  t: Teardown,
  o: {
    database: TestDatabase
    identity: { issuer: string; audience: string; jwksUrl: string }
    settings?: Record<string, string>
    clock?: Clock
  },
): Promise<StartedApi> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-api-'))
  const { log, logged } = readableLog()
  const config = loadConfig(ApiConfig, {
    ...apiSettings(o.database, folder),
    AUTH_ISSUER: o.identity.issuer,
    AUTH_AUDIENCE: o.identity.audience,
    AUTH_JWKS_URL: o.identity.jwksUrl,
    ...o.settings,
  })
  const store = openObjectStore(config)
  const api = await startApi({ config, db: o.database.db, store, log, clock: o.clock ?? systemClock })
  t.teardown(async () => {
    await api.close()
    await store.close()
    await rm(folder, { recursive: true, force: true })
  })
  return { ...api, config, logged, port: Number(new URL(api.publicUrl).port) }
}
