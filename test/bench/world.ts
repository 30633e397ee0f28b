import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { apiSettings } from '../support/api.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { startTestIdentity, type TestIdentity } from '../support/identity.ts'
import { type Child, startChild } from './children.ts'

export interface World {
  database: TestDatabase
  identity: TestIdentity
  folder: string
  api: Child
  /** One organization and the token of its owner. */
  orgId: Uuid
  org: string
  userId: Uuid
  token: string
}

interface WorldOptions {
  /** The API's program, when it is not `api-child.ts`. */
  program?: string
  /** Of the API, beside those it has anyway. */
  settings?: Record<string, string>
}

/** The API as it runs in production, in a process of its own, on a real database; all of it is gone when `work` ends. */
export async function inWorld<T>(work: (world: World) => Promise<T>, options: WorldOptions = {}): Promise<T> {
  const endings: (() => Promise<void>)[] = []
  const t = { teardown: (done: () => Promise<void>) => void endings.unshift(done) }
  try {
    return await work(await build(t, options))
  } finally {
    for (const end of endings) await end()
  }
}

async function build(t: { teardown(done: () => Promise<void>): void }, options: WorldOptions): Promise<World> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-bench-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const database = await testDatabase(t)
  const identity = await startTestIdentity(t)
  const [orgId, userId] = [newUuid(), newUuid()]
  const { admin } = database
  await admin.query('insert into organizations (id, name) values ($1, $2)', [orgId, 'Bench'])
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [userId, identity.issuer, userId])
  await admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'owner')`, [orgId, userId])
  const api = await startChild(options.program ?? 'api-child.ts', folder, {
    ...apiSettings(database, join(folder, 'store')),
    CHECK_RESPONSES: 'false',
    // On, so that what they cost is measured, and too generous to be met.
    RATE_LIMIT_FACTOR: '1000000',
    AUTH_ISSUER: identity.issuer,
    AUTH_AUDIENCE: identity.audience,
    AUTH_JWKS_URL: identity.jwksUrl,
    ...options.settings,
  })
  t.teardown(() => api.stop())
  const token = await identity.token({ sub: userId, roles: ['ROLE_USER'] })
  return { database, identity, folder, api, orgId, userId, org: formatId('organization', orgId), token }
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const half = sorted.length >> 1
  const [low = 0, high = 0] = [sorted[sorted.length % 2 === 0 ? half - 1 : half], sorted[half]]
  return (low + high) / 2
}
