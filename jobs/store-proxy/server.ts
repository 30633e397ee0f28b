import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { coldKeyOf, isColdKey } from '../../lib/contract/cold-key.ts'
import { outputType } from '../../lib/contract/output-types.ts'
import { NamedParts, OBJECT_HEADER, type Refusal, type StoreGrant } from '../../lib/contract/store-proxy.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { type ObjectStore, StoreError } from '../../lib/runtime/object-store/object-store.ts'
import { type Action, permits, type Target } from './grant.ts'

interface Call {
  store: ObjectStore
  grant: StoreGrant
  request: IncomingMessage
  response: ServerResponse
  /** An argument of the query; throws `Refused` when it is missing. */
  the(name: string): string
}

interface Operation {
  action: Action
  on: 'key' | 'prefix' | 'nothing'
  /** The answer, as JSON; undefined when the operation has answered itself. */
  run(call: Call): Promise<object | undefined>
}

/** A request that the grant does not permit, or that this server does not know. */
class Refused extends Error {}

const DONE = {}
const lengthOf = ({ headers }: IncomingMessage): number | undefined =>
  headers['content-length'] === undefined ? undefined : Number(headers['content-length'])

const OPERATIONS: Readonly<Record<string, Operation>> = {
  /** Tells that this server runs, without a request to the store. */
  'GET /ping': { action: 'read', on: 'nothing', run: async () => DONE },
  'GET /check': {
    action: 'read',
    on: 'nothing',
    async run({ store }) {
      await store.check()
      return DONE
    },
  },
  'GET /info': {
    action: 'read',
    on: 'key',
    async run({ store, grant, the }) {
      const key = the('key')
      const cold = coldTwin(grant, key)
      return { object: (await store.head(key)) ?? (cold && (await store.head(cold))) ?? null }
    },
  },
  'GET /object': { action: 'read', on: 'key', run: sendObject },
  'PUT /object': {
    action: 'write',
    on: 'key',
    run({ store, request, the }) {
      const size = lengthOf(request)
      const key = the('key')
      // Not the type that the request names: see `outputType`.
      return store.put(key, request, { contentType: outputType(key), ...(size !== undefined && { size }) })
    },
  },
  'DELETE /object': {
    action: 'remove',
    on: 'key',
    async run({ store, the }) {
      await store.delete(the('key'))
      return DONE
    },
  },
  'GET /list': { action: 'list', on: 'prefix', run: sendList },
  'DELETE /list': {
    action: 'remove',
    on: 'prefix',
    run: async ({ store, the }) => ({ deleted: await store.deletePrefix(the('prefix')) }),
  },
  'POST /uploads': {
    action: 'write',
    on: 'key',
    async run({ store, the }) {
      const key = the('key')
      return { uploadId: await store.createMultipart(key, { contentType: outputType(key) }) }
    },
  },
  'PUT /part': {
    action: 'write',
    on: 'key',
    run({ store, request, the }) {
      const contentMd5 = request.headers['content-md5']
      const options = { size: lengthOf(request) ?? 0, ...(typeof contentMd5 === 'string' && { contentMd5 }) }
      return store.putPart(the('key'), the('uploadId'), Number(the('partNumber')), request, options)
    },
  },
  'GET /parts': {
    action: 'write',
    on: 'key',
    run: ({ store, the }) => store.listParts(the('key'), the('uploadId')),
  },
  'POST /upload': {
    action: 'write',
    on: 'key',
    async run({ store, request, the }) {
      const parts = NamedParts.parse(JSON.parse(await shortText(request)))
      return store.completeMultipart(the('key'), the('uploadId'), parts)
    },
  },
  'DELETE /upload': {
    action: 'write',
    on: 'key',
    async run({ store, the }) {
      await store.abortMultipart(the('key'), the('uploadId'))
      return DONE
    },
  },
}

/** 10,000 parts with their etags. */
const MAX_BODY = 2 * 1024 ** 2

async function shortText(request: IncomingMessage): Promise<string> {
  if ((lengthOf(request) ?? Number.POSITIVE_INFINITY) > MAX_BODY) throw new Refused('The body is too long')
  return text(request)
}

const RANGE = /^bytes=(\d+)-(\d*)$/

/** Where a source of this Job is if it has moved to the cold tier since the Job was made. */
const coldTwin = (grant: StoreGrant, key: string): string | undefined =>
  grant.read.includes(key) && key.includes('/') && !isColdKey(key) ? coldKeyOf(key) : undefined

async function sendObject({ store, grant, request, response, the }: Call): Promise<undefined> {
  const [, start, end] = RANGE.exec(request.headers.range ?? '') ?? []
  const range = start === undefined ? undefined : { start: Number(start), ...(end && { end: Number(end) }) }
  const key = the('key')
  const { info, body } = await store.get(key, range).catch((error: unknown) => {
    const cold = coldTwin(grant, key)
    if (cold && error instanceof StoreError && error.code === 'NotFound') return store.get(cold, range)
    throw error
  })
  const from = Math.min(range?.start ?? 0, info.size)
  const to = Math.min((range?.end ?? info.size) + (range?.end === undefined ? 0 : 1), info.size)
  response.writeHead(200, { 'content-length': Math.max(0, to - from), [OBJECT_HEADER]: JSON.stringify(info) })
  await pipeline(body, response)
  return undefined
}

async function sendList({ store, response, the }: Call): Promise<undefined> {
  response.writeHead(200)
  // A client that has seen enough closes the connection in the middle.
  const closed = new AbortController()
  response.once('close', () => closed.abort())
  for await (const { key, size, etag, lastModified } of store.list(the('prefix'))) {
    const line = `${JSON.stringify({ key, size, etag, lastModified })}\n`
    if (response.write(line)) continue
    await once(response, 'drain', { signal: AbortSignal.any([closed.signal, AbortSignal.timeout(60_000)]) })
  }
  response.end()
  return undefined
}

export interface StoreProxy {
  /** Ends the connections; a request in progress fails. */
  close(): Promise<void>
}

/**
 * Serves the granted part of a store over HTTP at a Unix socket. The client is whatever runs in the Job's container, a
 * decoder that a stranger's file has taken over included: nothing beyond the grant, no credential and no signed link
 * ever leaves this server.
 */
export async function startStoreProxy(options: {
  /** A path that does not exist, in a folder that only the Job's containers can reach. */
  address: string
  grant: StoreGrant
  /** A StoreError instead of a store answers every request. */
  store: ObjectStore | StoreError
  log: Log
}): Promise<StoreProxy> {
  const { grant, store, log, address } = options

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://store')
    const operation = OPERATIONS[`${request.method} ${url.pathname}`]
    if (!operation) throw new Refused('The store proxy does not know this request')
    if (store instanceof StoreError) throw store
    const the = (name: string) => {
      const value = url.searchParams.get(name)
      if (value === null) throw new Refused(`The request lacks ${name}`)
      return value
    }
    const target: Target =
      operation.on === 'nothing' ? 'nothing' : operation.on === 'key' ? { key: the('key') } : { prefix: the('prefix') }
    if (!permits(grant, target, operation.action)) {
      log.warn({ operation: `${request.method} ${url.pathname}`, target }, 'refused')
      throw new Refused('This Job has no right to that object')
    }
    const answer = await operation.run({ store, grant, request, response, the })
    if (answer) response.end(JSON.stringify(answer))
  }

  const server = createServer((request, response) => {
    serve(request, response).catch((error: unknown) => {
      // After the head was sent, only a broken connection tells the client that the body is not whole.
      if (response.headersSent || response.destroyed) return void response.destroy()
      const { status, refusal } = answerOf(error)
      if (status === 500) log.error({ err: error }, 'failed')
      // Not `connection: close`: a client that still sends its body would find a closed socket (EPIPE) before it finds
      // the answer. Node reads the rest of the body and drops it.
      response.writeHead(status).end(JSON.stringify(refusal))
    })
  })
  // A conversion may pause for longer than Node waits for a request's body.
  server.requestTimeout = 0
  server.keepAliveTimeout = 10 * 60_000
  server.listen(address)
  await once(server, 'listening')
  return {
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close').catch(() => undefined)
    },
  }
}

function answerOf(error: unknown): { status: number; refusal: Refusal } {
  if (error instanceof StoreError) {
    const { code, message } = error
    return { status: code === 'NotFound' ? 404 : code === 'Unavailable' ? 503 : 400, refusal: { code, message } }
  }
  const isTheirs = error instanceof Refused || error instanceof TypeError || error instanceof RangeError
  const message = isTheirs ? error.message : 'The store proxy failed'
  return { status: isTheirs ? 403 : 500, refusal: { code: isTheirs ? 'Refused' : 'Unavailable', message } }
}
