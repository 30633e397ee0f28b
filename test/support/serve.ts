import { createServer, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import type { Actor } from '../../api/auth/actor.ts'
import { type HttpAppOptions, httpApp } from '../../api/http/http-app.ts'
import type { Route } from '../../api/http/route.ts'
import { newUuid } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import { systemClock } from '../../lib/runtime/clock.ts'
import { type Log, openLog } from '../../lib/runtime/log.ts'

interface Teardown {
  teardown(done: () => Promise<void>): void
}

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into it and fails if it is something else
  json: any
}

export interface Ask {
  method?: string
  path: string
  headers?: Record<string, string>
  /** An object is sent as JSON. */
  body?: unknown
}

export interface Server {
  port: number
  url: string
  ask(what: Ask): Promise<Answer>
  /** Everything that was logged. */
  logged: Record<string, unknown>[]
}

/** Users of these tests: `Bearer ann` and `Bearer bob`. */
export const PEOPLE: Record<string, Actor> = {
  ann: { userId: newUuid(), platformAdmin: false, sessionId: null },
  bob: { userId: newUuid(), platformAdmin: true, sessionId: null },
}

/** A log that can be read afterwards. */
export function readableLog(): { log: Log; logged: Record<string, unknown>[] } {
  const logged: Record<string, unknown>[] = []
  const sink = new PassThrough()
  sink.on('data', (line: Buffer) => void logged.push(JSON.parse(line.toString()) as Record<string, unknown>))
  return { log: openLog({ program: 'test', level: 'debug', to: sink }), logged }
}

/** Routes over real HTTP, as the API serves them. */
export async function serveRoutes(
  t: Teardown,
  routes: Route[],
  options: Partial<HttpAppOptions> & Pick<HttpAppOptions, 'db'>,
): Promise<Server> {
  const { log, logged } = readableLog()
  const app = httpApp(routes, {
    log,
    clock: systemClock,
    basePath: '/v1',
    trustProxyHops: 0,
    checkResponses: true,
    async authenticate(header) {
      const actor = PEOPLE[header?.replace('Bearer ', '') ?? '']
      if (!actor) throw new Problem('UNAUTHORIZED', 'no')
      return actor
    },
    ...options,
  })
  const server = createServer(app)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const { port } = server.address() as AddressInfo
  return { port, url: `http://127.0.0.1:${port}`, ask: (what) => ask(port, what), logged }
}

/** One request on a connection of its own. */
export function ask(port: number, { method = 'GET', path, headers = {}, body }: Ask): Promise<Answer> {
  const isJson = body !== undefined && !Buffer.isBuffer(body) && typeof body !== 'string' && !(body instanceof Readable)
  const sent = isJson ? JSON.stringify(body) : body
  return new Promise((resolve, reject) => {
    const all = { ...(isJson && { 'content-type': 'application/json' }), ...headers }
    const req = httpRequest({ host: '127.0.0.1', port, method, path, headers: all, agent: false }, (res) => {
      const chunks: Buffer[] = []
      res.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject)
      res.on('end', () => {
        const text = Buffer.concat(chunks).toString()
        const isJsonAnswer = /json/.test(res.headers['content-type'] ?? '') && text !== ''
        resolve({
          status: res.statusCode ?? 0,
          headers: res.headers,
          text,
          json: isJsonAnswer ? JSON.parse(text) : null,
        })
      })
    })
    req.on('error', reject)
    if (sent instanceof Readable) sent.on('error', () => req.destroy()).pipe(req)
    else req.end(sent as string | Buffer | undefined)
  })
}

/** Sends exactly these bytes and resolves with everything that comes back until the server closes the connection. */
export function askRaw(port: number, bytes: string | Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    const chunks: Buffer[] = []
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    socket.on('error', () => {})
    socket.on('close', () => resolve(Buffer.concat(chunks).toString()))
  })
}

/** A database that must not be needed. */
export const noDatabase = new Proxy({} as HttpAppOptions['db'], {
  get(_target, name) {
    throw new Error(`the database was asked: ${String(name)}`)
  },
})
