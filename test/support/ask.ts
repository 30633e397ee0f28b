import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { connect } from 'node:net'
import { Readable } from 'node:stream'

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

/** One request on a connection of its own. */
export function ask(port: number, { method = 'GET', path, headers = {}, body }: Ask): Promise<Answer> {
  const isJson = body !== undefined && !Buffer.isBuffer(body) && typeof body !== 'string' && !(body instanceof Readable)
  const sent = isJson ? JSON.stringify(body) : body
  return new Promise((resolve, reject) => {
    // Of a DELETE, Node says no length of the body, as if it had none.
    const length = method === 'DELETE' && typeof sent === 'string' && { 'content-length': `${Buffer.byteLength(sent)}` }
    const all = { ...(isJson && { 'content-type': 'application/json', ...length }), ...headers }
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
