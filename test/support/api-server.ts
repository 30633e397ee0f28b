import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { parseSelector } from '../../local/cluster/selector.ts'
import { Collection, Refusal, type Stored, type StoredEvent } from './api-server-store.ts'

export interface SeenRequest {
  method: string
  path: string
  query: URLSearchParams
  contentType: string | undefined
  authorization: string | undefined
  body: unknown
}
interface Failure {
  match: (seen: SeenRequest) => boolean
  status: number
  headers?: Record<string, string>
  body?: string
}
interface Watcher {
  res: ServerResponse
  collection: string
  wants: (object: Stored) => boolean
}
interface Target {
  collection: string
  namespace: string | undefined
  name: string | undefined
  subresource: string | undefined
}

const PATH = /^\/(?:apis\/([^/]+)|api)\/([^/]+)(?:\/namespaces\/([^/]+))?\/([a-z]+)(?:\/([^/]+))?(?:\/(status))?$/

export interface ApiServerOptions {
  /** Largest page, however much is asked for: small lists then come in pages too. */
  page?: number
  /** Plurals that are served; others get the plain 404 of a missing CRD. Undefined: all. */
  served?: string[]
  /** Admission: a message refuses the object with 422. */
  validate?(collection: string, object: Stored): string | undefined
  tls?: { key: string; cert: string }
  token?: () => string
}

/**
 * The wire of a Kubernetes API server, enough of it to test a client: pages, watches with bookmarks whose bytes are cut
 * anywhere, expired versions, preconditions, server-side apply. Knobs break things on demand.
 */
export async function startApiServer(options: ApiServerOptions = {}) {
  const collections = new Map<string, Collection>()
  const watchers = new Set<Watcher>()
  const sockets = new Set<Socket>()
  const seen: SeenRequest[] = []
  const failures: Failure[] = []
  let version = 100
  let compactedAt = 0
  let connections = 0

  const collectionOf = (name: string) => {
    let found = collections.get(name)
    if (!found) {
      const announce = (event: StoredEvent) => tell(name, event)
      const validate = (object: Stored) => options.validate?.(name, object)
      found = new Collection(() => ++version, announce, validate)
      collections.set(name, found)
    }
    return found
  }

  function tell(collection: string, event: StoredEvent): void {
    for (const w of watchers) if (w.collection === collection && w.wants(event.object)) writeCut(w.res, event)
  }

  async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? '/', 'http://api')
    const request: SeenRequest = {
      method: req.method ?? 'GET',
      path: url.pathname,
      query: url.searchParams,
      contentType: req.headers['content-type'],
      authorization: req.headers.authorization,
      body: await bodyOf(req),
    }
    seen.push(request)
    if (isStranger(request)) throw new Refusal(401, 'Unauthorized', 'Unauthorized')
    const failure = takeFailure(request)
    if (failure) return void res.writeHead(failure.status, failure.headers).end(failure.body ?? '')
    const target = targetOf(url.pathname)
    const isServed = options.served?.includes(target?.collection ?? '') ?? true
    if (!target || !isServed) {
      res.writeHead(404, { 'content-type': 'text/plain' }).end('404 page not found\n')
    } else if (url.searchParams.get('watch') === 'true') watch(target, url.searchParams, res)
    else answer(res, request.method === 'POST' ? 201 : 200, act(target, request))
  }

  const isStranger = (r: SeenRequest) => options.token !== undefined && r.authorization !== `Bearer ${options.token()}`

  function takeFailure(request: SeenRequest): Failure | undefined {
    const index = failures.findIndex((f) => f.match(request))
    return index < 0 ? undefined : failures.splice(index, 1)[0]
  }

  function act(target: Target, request: SeenRequest): unknown {
    const collection = collectionOf(target.collection)
    const key = `${target.namespace}/${target.name}`
    const body = request.body as Stored
    switch (`${request.method} ${target.name ? 'one' : 'all'}`) {
      case 'GET all':
        return listOf(target, request.query)
      case 'GET one':
        return collection.get(key)
      case 'POST all':
        return collection.create(target.namespace ?? '', body)
      case 'PUT one':
        return collection.replace(key, body)
      case 'PATCH one':
        return patchOf(target, key, request)
      case 'DELETE one': {
        const preconditions = (body as { preconditions?: { uid?: string } } | undefined)?.preconditions
        return collection.remove(key, preconditions?.uid)
      }
      default:
        throw new Refusal(405, 'MethodNotAllowed', request.method)
    }
  }

  function patchOf(target: Target, key: string, { contentType, query, body }: SeenRequest): unknown {
    const collection = collectionOf(target.collection)
    if (contentType === 'application/merge-patch+json') return collection.mergePatch(key, body as never)
    if (contentType === 'application/apply-patch+yaml' && target.subresource === 'status') {
      const manager = query.get('fieldManager')
      if (!manager) throw new Refusal(400, 'BadRequest', 'fieldManager is required for apply')
      if (query.get('force') !== 'true') throw new Refusal(409, 'Conflict', 'not forced')
      return collection.applyStatus(key, body as Stored, manager)
    }
    throw new Refusal(415, 'UnsupportedMediaType', `cannot patch with ${contentType}`)
  }

  const wantsOf = (target: Target, query: URLSearchParams) => {
    const test = parseSelector(query.get('labelSelector') ?? '')
    return (o: Stored) =>
      (!target.namespace || o.metadata.namespace === target.namespace) && test(o.metadata.labels ?? {})
  }

  function listOf(target: Target, query: URLSearchParams): unknown {
    const wants = wantsOf(target, query)
    const [at, from] = (query.get('continue') ?? `${version}:0`).split(':').map(Number) as [number, number]
    if (at < compactedAt) throw new Refusal(410, 'Expired', 'The provided continue parameter is too old')
    const all = [...collectionOf(target.collection).objects.values()].filter(wants)
    const size = Math.min(Number(query.get('limit') ?? 500), options.page ?? 500)
    const items = all.slice(from, from + size).map(({ apiVersion: _, kind: __, ...rest }) => rest)
    const kind = all[0]?.kind ?? 'Object'
    const more = from + size < all.length
    return {
      kind: `${kind}List`,
      apiVersion: all[0]?.apiVersion ?? 'v1',
      metadata: { resourceVersion: String(at), ...(more && { continue: `${at}:${from + size}` }) },
      items,
    }
  }

  function watch(target: Target, query: URLSearchParams, res: ServerResponse): void {
    const from = Number(query.get('resourceVersion'))
    if (from < compactedAt) throw new Refusal(410, 'Expired', `too old resource version: ${from} (${compactedAt})`)
    res.writeHead(200, { 'content-type': 'application/json' })
    res.flushHeaders()
    const watcher = { res, collection: target.collection, wants: wantsOf(target, query) }
    const missed = collectionOf(target.collection).events.filter((e) => e.version > from && watcher.wants(e.object))
    for (const event of missed) writeCut(res, event)
    watchers.add(watcher)
    res.on('close', () => watchers.delete(watcher))
  }

  const listener = (req: IncomingMessage, res: ServerResponse) => {
    handle(req, res).catch((error: unknown) => {
      const refusal = error instanceof Refusal ? error : new Refusal(500, 'InternalError', String(error))
      const { code, reason, message } = refusal
      answer(res, code, { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message })
    })
  }
  const server = options.tls ? createTlsServer(options.tls, listener) : createServer(listener)
  server.on(options.tls ? 'secureConnection' : 'connection', (socket: Socket) => {
    connections += 1
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  return {
    url: `${options.tls ? 'https' : 'http'}://127.0.0.1:${port}`,
    seen,
    collection: collectionOf,
    /** The next request that matches is answered like this instead. */
    failNext: (failure: Failure) => void failures.push(failure),
    connections: () => connections,
    watching: () => watchers.size,
    /** Everything older than now can no longer be resumed from. */
    compact: () => {
      compactedAt = ++version
    },
    /** Moves every watch forward without an object: what a busy cluster does to a quiet kind. */
    bookmark: () => {
      version += 10
      for (const w of watchers) {
        writeCut(w.res, { type: 'BOOKMARK', object: { metadata: { resourceVersion: String(version) } } })
      }
      return version
    },
    /** Any event, as it stands. */
    sendRaw: (event: object) => {
      for (const w of watchers) writeCut(w.res, event)
    },
    endWatches: () => {
      for (const w of watchers) w.res.end()
    },
    dropConnections: () => {
      for (const socket of sockets) socket.destroy()
    },
    close: async () => {
      if (!server.listening) return
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
}
export type ApiServer = Awaited<ReturnType<typeof startApiServer>>

/** The bytes of one event in two writes, cut in the middle: even inside a character. */
function writeCut(res: ServerResponse, event: object): void {
  const { version: _, ...shown } = event as StoredEvent
  const bytes = Buffer.from(`${JSON.stringify(shown)}\n`)
  const at = Math.floor(bytes.length / 2)
  res.write(bytes.subarray(0, at))
  res.write(bytes.subarray(at))
}

function targetOf(path: string): Target | undefined {
  const found = PATH.exec(path)
  if (!found) return undefined
  const [, , , namespace, collection = '', name, subresource] = found.map((p) => p && decodeURIComponent(p))
  return { collection, namespace, name, subresource }
}

async function bodyOf(req: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  for await (const chunk of req) chunks.push(chunk as Buffer)
  return chunks.length ? JSON.parse(Buffer.concat(chunks).toString()) : undefined
}

function answer(res: ServerResponse, status: number, body: unknown): void {
  if (res.headersSent) return void res.destroy()
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
