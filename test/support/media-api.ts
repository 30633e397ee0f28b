import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ApiConfig } from '../../api/config.ts'
import { startApi } from '../../api/server.ts'
import { formatId, newUuid, parseId, type Uuid } from '../../lib/contract/ids.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import { loadConfig } from '../../lib/runtime/config.ts'
import { openLog } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store.ts'
import { openFolderStore } from '../../lib/runtime/object-store-folder.ts'
import { type TestDatabase, testDatabase } from './database.ts'
import { startTestIdentity } from './identity.ts'

interface Teardown {
  teardown(done: () => Promise<void>): void
}

export interface Answer {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came
  body: any
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came
  data: any
  code: string | undefined
}

export interface Person {
  id: Uuid
  wireId: string
  token: string
}

export interface MediaApi {
  url: string
  database: TestDatabase
  store: ObjectStore
  /** Wire ids of two organizations. */
  org: string
  otherOrg: string
  people: Record<'owner' | 'admin' | 'member' | 'another' | 'stranger', Person>
  /** `path` below the base path; `who` signs it, nobody when left out. */
  call(who: Person | undefined, method: string, path: string, options?: CallOptions): Promise<Answer>
  /** Keys in the store. */
  keys(prefix?: string): Promise<string[]>
}

export interface CallOptions {
  json?: unknown
  form?: FormData
  bytes?: Uint8Array | ReadableStream
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** The whole API on a database and a folder of its own, with two organizations and five people. */
export async function startMediaApi(
  t: Teardown,
  options: { clock?: Clock; store?: ObjectStore } = {},
): Promise<MediaApi> {
  const database = await testDatabase(t)
  const identity = await startTestIdentity(t)
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-store-'))
  const store = options.store ?? openFolderStore({ folder })
  const log = openLog({ program: 'api', level: process.env['TEST_LOG'] ?? 'fatal', fd: 2 })
  const config = loadConfig(ApiConfig, {
    HOST: '127.0.0.1',
    PORT: '0',
    INTERNAL_PORT: '0',
    METRICS_PORT: '0',
    PUBLIC_URL: 'https://keepsake.example',
    DATABASE_URL: database.url,
    AUTH_ISSUER: identity.issuer,
    AUTH_AUDIENCE: identity.audience,
    AUTH_JWKS_URL: identity.jwksUrl,
    LINK_KEYS: JSON.stringify({ current: 'a', keys: { a: key(), b: key() } }),
    CURSOR_KEY: key(),
    CHECK_RESPONSES: 'true',
    // Tests ask as fast as they can; those of the limits say otherwise.
    RATE_LIMIT_FACTOR: '0',
    DRAIN_SECONDS: '0',
    STORE_KIND: 'folder',
    STORE_FOLDER: folder,
  })
  const clock = options.clock ?? { now: () => new Date() }
  const api = await startApi({ config, db: database.db, store, log, clock })
  t.teardown(async () => {
    await api.close()
    await store.close()
    await rm(folder, { recursive: true, force: true })
  })

  const [org, otherOrg] = [newUuid(), newUuid()]
  await database.admin.query(`insert into organizations (id, name) values ('${org}', 'One'), ('${otherOrg}', 'Two')`)
  const make = async (orgId: Uuid, role: string): Promise<Person> => {
    const id = newUuid()
    await database.admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [id, identity.issuer, id])
    await database.admin.query('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [orgId, id, role])
    return { id, wireId: formatId('user', id), token: await identity.token({ sub: id }) }
  }
  const people = {
    owner: await make(org, 'owner'),
    admin: await make(org, 'admin'),
    member: await make(org, 'member'),
    another: await make(org, 'member'),
    stranger: await make(otherOrg, 'owner'),
  }

  async function call(who: Person | undefined, method: string, path: string, o: CallOptions = {}): Promise<Answer> {
    const response = await fetch(`${api.publicUrl}${path.startsWith('/d/') ? '' : '/v1'}${path}`, {
      method,
      redirect: 'manual',
      headers: { ...(who && { authorization: `Bearer ${who.token}` }), ...typeOf(o), ...ASK_ANYWAY, ...o.headers },
      ...bodyOf(o),
      ...(o.signal && { signal: o.signal }),
    } as RequestInit)
    const bytes = Buffer.from(await response.arrayBuffer())
    const isJson = response.headers.get('content-type')?.startsWith('application/json')
    const body = isJson && bytes.length > 0 ? JSON.parse(bytes.toString()) : bytes
    return { status: response.status, headers: response.headers, body, data: body.data, code: body.error?.code }
  }

  return {
    url: api.publicUrl,
    database,
    store,
    org: formatId('organization', org),
    otherOrg: formatId('organization', otherOrg),
    people,
    call,
    async keys(prefix = '') {
      const found: string[] = []
      for await (const { key } of store.list(prefix)) found.push(key)
      return found
    },
  }
}

// A fetch with a condition of its own says `no-cache` unless told otherwise, and that means: never answer 304.
const ASK_ANYWAY = { 'cache-control': 'max-age=0' }

const typeOf = (o: CallOptions) => ({
  ...(o.json !== undefined && { 'content-type': 'application/json' }),
  ...(o.bytes && { 'content-type': 'application/octet-stream' }),
})
const bodyOf = (o: CallOptions) => {
  const body = o.form ?? o.bytes ?? (o.json === undefined ? undefined : JSON.stringify(o.json))
  return body === undefined ? {} : { body, duplex: 'half' }
}

const key = () => randomBytes(32).toString('base64url')

/** The path of a signed link: the test's server has another address than the links say. */
export const pathOf = (link: string) => new URL(link).pathname.replace(/^\/v1/, '')

export const uuidOf = (kind: 'media' | 'upload' | 'organization', id: string): Uuid => {
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
