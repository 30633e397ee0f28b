import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { KINDS } from '../../crds/kinds.ts'
import {
  ClusterError,
  type ClusterErrorReason,
  type KubeObject,
  type Resource,
} from '../../lib/runtime/kube/cluster.ts'
import { BUILT_IN, customResource } from '../../local/cluster/admission.ts'
import { parseFieldSelector, parseSelector } from '../../local/cluster/selector.ts'
import { Store } from '../../local/cluster/store.ts'

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
  /** The answer comes after this. */
  after?: Promise<unknown>
}
interface Watcher {
  res: ServerResponse
  target: Target
  wants: (object: KubeObject) => boolean
}
interface Happening {
  version: number
  plural: string
  object: KubeObject | undefined
  old: KubeObject | undefined
}
interface Target {
  resource: Resource
  namespace: string | undefined
  name: string | undefined
  subresource: string | undefined
}

const PATH = /^\/(?:apis\/([^/]+)|api)\/([^/]+)(?:\/namespaces\/([^/]+))?\/([a-z]+)(?:\/([^/]+))?(?:\/(status))?$/

const STATUS_CODES: Record<ClusterErrorReason, number> = {
  NotFound: 404,
  AlreadyExists: 409,
  Conflict: 409,
  Invalid: 422,
  Forbidden: 403,
  Gone: 410,
  TooManyRequests: 429,
  Unavailable: 404, // a kind that is not served
}

export interface ApiServerOptions {
  /** Largest page, however much is asked for: small lists then come in pages too. */
  page?: number
  /** Lists can be had as a stream (WatchList); otherwise asking for one is refused, as by a server that has it off. */
  streamsLists?: boolean
  tls?: { key: string; cert: string }
  /** The bearer token that is right at this moment. Undefined: nobody asks. */
  token?: () => string
}

/**
 * The wire of a Kubernetes API server: pages, watches with bookmarks whose bytes are cut anywhere, expired versions,
 * content types of patches, plain 404 for kinds that are not served. Objects and admission are those of the in-process
 * cluster. Knobs break things on demand.
 */
export async function startApiServer(options: ApiServerOptions = {}) {
  const rules = [...BUILT_IN, ...KINDS.map(customResource)]
  const store = new Store(rules)
  const history: Happening[] = []
  const watchers = new Set<Watcher>()
  const sockets = new Set<Socket>()
  const seen: SeenRequest[] = []
  const failures: Failure[] = []
  let version = 0
  let compactedAt = 0
  let connections = 0

  store.listen(({ resource, object, old }) => {
    version = Number((object ?? old)?.metadata.resourceVersion)
    const happening = { version, plural: resource.plural, object, old }
    history.push(happening)
    for (const w of watchers) tell(w, happening)
  })

  /** What a watcher hears depends on whether the object matched before and whether it does now. */
  function tell({ res, target, wants }: Watcher, { plural, object, old }: Happening): void {
    if (plural !== target.resource.plural) return
    const did = old !== undefined && wants(old)
    const does = object !== undefined && wants(object)
    if (does) writeCut(res, { type: did ? 'MODIFIED' : 'ADDED', object })
    else if (did) {
      const metadata = { ...old.metadata, resourceVersion: String(version) }
      writeCut(res, { type: 'DELETED', object: { ...old, metadata } })
    }
  }

  async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const request = await readRequest(req)
    seen.push(request)
    if (isStranger(request)) throw new Refusal(401, 'Unauthorized')
    const failure = takeFailure(request)
    await failure?.after
    const target = targetOf(request.path)
    if (failure) res.writeHead(failure.status, failure.headers).end(failure.body ?? '')
    else if (!target) res.writeHead(404, { 'content-type': 'text/plain' }).end('404 page not found\n')
    else if (request.query.get('watch') === 'true') watch(target, request.query, res)
    else answer(res, request.method === 'POST' ? 201 : 200, act(target, request))
  }

  const isStranger = (r: SeenRequest) => options.token !== undefined && r.authorization !== `Bearer ${options.token()}`

  function takeFailure(request: SeenRequest): Failure | undefined {
    const index = failures.findIndex((f) => f.match(request))
    return index < 0 ? undefined : failures.splice(index, 1)[0]
  }

  function targetOf(path: string): Target | undefined {
    const found = PATH.exec(path)
    if (!found) return undefined
    const [, group = '', apiVersion, namespace, plural, name, subresource] = found.map(
      (p) => p && decodeURIComponent(p),
    )
    const resource = rules.map((r) => r.resource).find((r) => r.plural === plural && r.group === group)
    return resource?.version === apiVersion
      ? { resource: resource as Resource, namespace, name, subresource }
      : undefined
  }

  function act(target: Target, request: SeenRequest): unknown {
    const { resource, namespace = '', name = '' } = target
    const key = { namespace, name }
    const body = request.body as KubeObject
    switch (`${request.method} ${name ? 'one' : 'all'}`) {
      case 'GET all':
        return listOf(target, request.query)
      case 'GET one': {
        const object = store.find(resource, key)
        if (!object) throw new ClusterError('NotFound', `${resource.plural} "${name}" not found`)
        return object
      }
      case 'POST all':
        return store.create(resource, { ...body, metadata: { ...body.metadata, namespace } })
      case 'PUT one':
        return store.replace(resource, body)
      case 'PATCH one':
        return patch(target, request)
      case 'DELETE one': {
        const { preconditions } = body as { preconditions?: { uid?: string } }
        if (!store.delete(resource, key, preconditions ?? {})) throw new ClusterError('NotFound', 'not found')
        return { kind: 'Status', status: 'Success' }
      }
      default:
        throw new Refusal(405, 'MethodNotAllowed')
    }
  }

  function patch(target: Target, { contentType, query, body }: SeenRequest): unknown {
    const { resource, namespace = '', name = '' } = target
    const key = { namespace, name }
    if (contentType === 'application/merge-patch+json' && !target.subresource) {
      return store.patch(resource, key, body as object)
    }
    if (contentType !== 'application/apply-patch+yaml' || target.subresource !== 'status') {
      throw new Refusal(415, 'UnsupportedMediaType')
    }
    const manager = query.get('fieldManager')
    if (!manager) throw new Refusal(400, 'BadRequest')
    if (query.get('force') !== 'true') throw new ClusterError('Conflict', 'not forced')
    const { apiVersion, kind, metadata, status } = body as KubeObject
    if (!apiVersion || !kind || metadata.name !== name) throw new Refusal(400, 'BadRequest')
    const { resourceVersion } = metadata
    const guarded = { ...key, ...(resourceVersion && { resourceVersion }) }
    return store.applyStatus(resource, guarded, status as object, manager)
  }

  const wantsOf = ({ namespace }: Target, query: URLSearchParams) => {
    const hasLabels = parseSelector(query.get('labelSelector') ?? '')
    const hasFields = parseFieldSelector(query.get('fieldSelector') ?? '')
    return (o: KubeObject) =>
      (namespace === undefined || o.metadata.namespace === namespace) &&
      hasLabels(o.metadata.labels ?? {}) &&
      hasFields(o)
  }

  function listOf(target: Target, query: URLSearchParams): unknown {
    const wants = wantsOf(target, query)
    const [at, from] = (query.get('continue') ?? `${version}:0`).split(':').map(Number) as [number, number]
    if (at < compactedAt) throw new ClusterError('Gone', 'The provided continue parameter is too old')
    const all = store.all(target.resource).filter(wants)
    const size = Math.min(Number(query.get('limit') ?? 500), options.page ?? 500)
    const more = from + size < all.length
    return {
      kind: `${target.resource.kind}List`,
      apiVersion: versionOf(target.resource),
      metadata: { resourceVersion: String(at), ...(more && { continue: `${at}:${from + size}` }) },
      items: all.slice(from, from + size).map(({ apiVersion: _, kind: __, ...rest }) => rest),
    }
  }

  function watch(target: Target, query: URLSearchParams, res: ServerResponse): void {
    if (query.get('sendInitialEvents') === 'true') {
      stream(target, query, res)
      return
    }
    const from = Number(query.get('resourceVersion'))
    if (from < compactedAt) throw new ClusterError('Gone', `too old resource version: ${from} (${compactedAt})`)
    res.writeHead(200, { 'content-type': 'application/json' })
    res.flushHeaders()
    const watcher = { res, target, wants: wantsOf(target, query) }
    for (const happening of history) if (happening.version > from) tell(watcher, happening)
    watchers.add(watcher)
    res.on('close', () => watchers.delete(watcher))
  }

  /** Every object, and a bookmark that says so. */
  function stream(target: Target, query: URLSearchParams, res: ServerResponse): void {
    if (!options.streamsLists) {
      throw new ClusterError('Invalid', 'sendInitialEvents is forbidden unless the WatchList feature gate is enabled')
    }
    res.writeHead(200, { 'content-type': 'application/json' })
    const all = store.all(target.resource).filter(wantsOf(target, query))
    for (const object of all) writeCut(res, { type: 'ADDED', object })
    const annotations = { 'k8s.io/initial-events-end': 'true' }
    writeCut(res, { type: 'BOOKMARK', object: { metadata: { resourceVersion: String(version), annotations } } })
  }

  const listener = (req: IncomingMessage, res: ServerResponse) => {
    handle(req, res).catch((error: unknown) => {
      const { code, reason, message } = refusalOf(error)
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
    store,
    /** The next request that matches is answered like this instead. */
    failNext: (failure: Failure) => void failures.push(failure),
    connections: () => connections,
    watching: () => watchers.size,
    /** Everything older than now can no longer be resumed from. */
    compact: () => {
      compactedAt = version
    },
    /** Tells every watch how far it has come, and answers with that version. */
    bookmark: () => {
      const object = { metadata: { resourceVersion: String(version) } }
      for (const w of watchers) writeCut(w.res, { type: 'BOOKMARK', object })
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
  const bytes = Buffer.from(`${JSON.stringify(event)}\n`)
  const at = Math.floor(bytes.length / 2)
  res.write(bytes.subarray(0, at))
  res.write(bytes.subarray(at))
}

const versionOf = ({ group, version }: Resource) => (group ? `${group}/${version}` : version)

async function readRequest(req: IncomingMessage): Promise<SeenRequest> {
  const url = new URL(req.url ?? '/', 'http://api')
  return {
    method: req.method ?? 'GET',
    path: url.pathname,
    query: url.searchParams,
    contentType: req.headers['content-type'],
    authorization: req.headers.authorization,
    body: await bodyOf(req),
  }
}

async function bodyOf(req: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  for await (const chunk of req) chunks.push(chunk as Buffer)
  return chunks.length ? JSON.parse(Buffer.concat(chunks).toString()) : undefined
}

function answer(res: ServerResponse, status: number, body: unknown): void {
  if (res.headersSent) {
    res.destroy()
    return
  }
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

class Refusal extends Error {
  readonly code: number
  readonly reason: string
  constructor(code: number, reason: string, message = reason) {
    super(message)
    this.code = code
    this.reason = reason
  }
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof ClusterError) return new Refusal(STATUS_CODES[error.reason], error.reason, error.message)
  return new Refusal(500, 'InternalError', String(error))
}
