import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ApiConfig } from '../../api/config.ts'
import { type RunningApi, startApi } from '../../api/server.ts'
import { formatId, type IdKind, newUuid, parseId, type Uuid } from '../../lib/contract/ids.ts'
import { type Clock, systemClock } from '../../lib/runtime/clock.ts'
import { loadConfig } from '../../lib/runtime/config.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { openObjectStore } from '../../lib/runtime/object-store/open.ts'
import { newSecret } from '../../lib/runtime/standard-webhooks.ts'
import { type TestDatabase, testDatabase } from './database.ts'
import { startTestIdentity, type TestIdentity } from './identity.ts'
import { AUDIT_KEYS } from './personal-data.ts'
import { type QuickAnswer, quickRequest } from './quick-request.ts'
import { readableLog } from './readable-log.ts'

interface Teardown {
  teardown(done: () => Promise<void>): void
}

export interface StartedApi extends RunningApi {
  /** Of the public listener. */
  port: number
  config: ApiConfig
  store: ObjectStore
  /** Everything that was logged. */
  logged: Record<string, unknown>[]
}

interface ApiOptions {
  /** Of the environment, besides those that `apiSettings` has. */
  settings?: Record<string, string>
  clock?: Clock
  store?: ObjectStore
}

/** With which the identity provider of the tests signs what it tells. */
export const WEBHOOK_SECRET = newSecret()

const key = () => randomBytes(32).toString('base64url')

/** What an API under test is configured with, besides its identity provider. */
export const apiSettings = (database: Pick<TestDatabase, 'url'>, folder: string) => ({
  HOST: '127.0.0.1',
  PORT: '0',
  INTERNAL_PORT: '0',
  METRICS_PORT: '0',
  PUBLIC_URL: 'https://keepsake.example',
  DATABASE_URL: database.url,
  STORE_KIND: 'folder',
  STORE_FOLDER: folder,
  LINK_KEYS: JSON.stringify({ current: 'a', keys: { a: key(), b: key() } }),
  CURSOR_KEY: key(),
  AUDIT_KEYS,
  ERASURE_KEY: key(),
  CHECK_RESPONSES: 'true',
  // Tests ask as fast as they can; those of the limits say otherwise.
  RATE_LIMIT_FACTOR: '0',
  DRAIN_SECONDS: '0',
})

/** The whole API in this process, on free ports: for a test that brings its database and its identity provider. */
export async function startApiOn(
  t: Teardown,
  o: ApiOptions & { database: TestDatabase; identity: { issuer: string; audience: string; jwksUrl: string } },
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
  const store = o.store ?? (await openObjectStore(config))
  const api = await startApi({ config, db: o.database.db, store, log, clock: o.clock ?? systemClock })
  t.teardown(async () => {
    await api.close()
    await store.close()
    await rm(folder, { recursive: true, force: true })
  })
  return { ...api, config, store, logged, port: Number(new URL(api.publicUrl).port) }
}

export interface Answer {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: answers differ by operation; a test reads a field and fails if it is missing
  body: any
  // biome-ignore lint/suspicious/noExplicitAny: answers differ by operation; a test reads a field and fails if it is missing
  data: any
  code: string | undefined
}

export interface Person {
  id: Uuid
  wireId: string
  token: string
}

export interface CallOptions {
  json?: unknown
  form?: FormData
  bytes?: Uint8Array | ReadableStream
  headers?: Record<string, string>
  signal?: AbortSignal
}

export interface TestApi extends StartedApi {
  database: TestDatabase
  identity: TestIdentity
  /** Wire ids of two organizations. */
  org: string
  otherOrg: string
  /** `stranger` owns the other organization, the others are members of the first; `platformAdmin` is in none. */
  people: Record<'owner' | 'admin' | 'member' | 'another' | 'stranger' | 'platformAdmin', Person>
  /** `path` below the base path; `who` signs it, without one there is no token. */
  call(who: Person | undefined, method: string, path: string, options?: CallOptions): Promise<Answer>
  /** Keys in the store. */
  keys(prefix?: string): Promise<string[]>
}

/** The whole API on a database, a folder and an identity provider of its own, with two organizations and six people. */
export async function startTestApi(
  t: Teardown,
  options: ApiOptions & { database?: TestDatabase } = {},
): Promise<TestApi> {
  const database = options.database ?? (await testDatabase(t))
  const identity = await startTestIdentity(t)
  const settings = {
    AUTH_TOKEN_URL: identity.tokenUrl,
    AUTH_REVOCATION_URL: identity.revocationUrl,
    AUTH_CLIENT_ID: 'keepsake',
    AUTH_CLIENT_SECRET: 'a client secret of the tests',
    AUTH_WEBHOOK_SECRETS: WEBHOOK_SECRET,
    ...options.settings,
  }
  const api = await startApiOn(t, { ...options, settings, database, identity })
  const { org, otherOrg, people } = await populate(database, identity)
  return {
    ...api,
    database,
    identity,
    org: formatId('organization', org),
    otherOrg: formatId('organization', otherOrg),
    people,
    call: (who, method, path, o) => call(api.publicUrl, who, method, path, o),
    async keys(prefix = '') {
      const found: string[] = []
      for await (const { key } of api.store.list(prefix)) found.push(key)
      return found
    },
  }
}

/** A user who belongs to no organization yet. */
export async function aPerson({ database, identity }: Pick<TestApi, 'database' | 'identity'>, roles?: string[]) {
  const id = newUuid()
  await database.admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [id, identity.issuer, id])
  const token = await identity.token({ sub: id, ...(roles && { roles }) })
  return { id, wireId: formatId('user', id), token } satisfies Person
}

async function populate(database: TestDatabase, identity: TestIdentity) {
  const { admin } = database
  const [org, otherOrg] = [newUuid(), newUuid()]
  await admin.query('insert into organizations (id, name) values ($1, $2), ($3, $4)', [org, 'One', otherOrg, 'Two'])
  const memberOf = async (orgId: Uuid, role: string) => {
    const made = await aPerson({ database, identity })
    await admin.query('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [orgId, made.id, role])
    return made
  }
  const people = {
    owner: await memberOf(org, 'owner'),
    admin: await memberOf(org, 'admin'),
    member: await memberOf(org, 'member'),
    another: await memberOf(org, 'member'),
    stranger: await memberOf(otherOrg, 'owner'),
    platformAdmin: await aPerson({ database, identity }, ['ROLE_ADMIN']),
  }
  return { org, otherOrg, people }
}

async function call(
  url: string,
  who: Person | undefined,
  method: string,
  path: string,
  o: CallOptions = {},
): Promise<Answer> {
  const headers = { ...(who && { authorization: `Bearer ${who.token}` }), ...typeOf(o), ...o.headers }
  const {
    status,
    headers: answered,
    bytes,
  } = await ask(`${url}${path.startsWith('/d/') ? '' : '/v1'}${path}`, {
    ...{ method, headers, o },
  })
  const isJson = answered.get('content-type')?.startsWith('application/json')
  const body = isJson && bytes.length > 0 ? JSON.parse(bytes.toString()) : bytes
  return { status, headers: answered, body, data: body.data, code: body.error?.code }
}

/** What is sent in one piece goes the quick way. A large body may be answered before all of it was sent. */
async function ask(
  url: string,
  { method, headers, o }: { method: string; headers: Record<string, string>; o: CallOptions },
): Promise<QuickAnswer> {
  const body = bodyOf(o)
  const isPlain = typeof body === 'string' || body instanceof Uint8Array
  if (!o.signal && (body === undefined || (isPlain && body.length < 16_384))) {
    return quickRequest(url, { method, headers, ...(body !== undefined && { body }) })
  }
  const response = await fetch(url, {
    ...{ method, headers, redirect: 'manual' },
    ...(body !== undefined && { body, duplex: 'half' }),
    ...(o.signal && { signal: o.signal }),
  } as RequestInit)
  return { status: response.status, headers: response.headers, bytes: await bodyIn(response) }
}

/** Of an event stream its first events, as it does not end. */
async function bodyIn(response: Response): Promise<Buffer> {
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
    return Buffer.from(await response.arrayBuffer())
  }
  for await (const first of response.body ?? []) return Buffer.from(first)
  return Buffer.alloc(0)
}

const typeOf = (o: CallOptions) => ({
  ...(o.json !== undefined && { 'content-type': 'application/json' }),
  ...(o.bytes && { 'content-type': 'application/octet-stream' }),
})
const bodyOf = (o: CallOptions) => o.form ?? o.bytes ?? (o.json === undefined ? undefined : JSON.stringify(o.json))

/** The path of a signed link: the test's server has another address than the links say. */
export const pathOf = (link: string) => new URL(link).pathname.replace(/^\/v1/, '')

export const uuidOf = (kind: IdKind, id: string): Uuid => {
  const uuid = parseId(kind, id)
  if (!uuid) throw new Error(`${id} is no ${kind}`)
  return uuid
}

/** The first bytes of an MP4, and then as many others as wanted: enough for everything but an encoder. */
export function fakeMp4(size: number): Buffer {
  const head = Buffer.from('\0\0\0\x18ftypisom\0\0\x02\0isommp42', 'latin1')
  return Buffer.concat([head, randomBytes(Math.max(0, size - head.length))])
}

export function formOf(bytes: Uint8Array, filename = 'clip.mp4', fields: Record<string, string> = {}): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.append(name, value)
  form.append('file', new Blob([bytes as Uint8Array<ArrayBuffer>], { type: 'text/html' }), filename)
  return form
}
