import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { formatId, newUuid } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import { problemBody } from './problems.ts'

/** The request line and all headers together. */
export const MAX_HEADER_BYTES = 16 * 1024

/**
 * The problem for a request that Node cannot read, by the code of its error (`HPE_…` are those of llhttp). Undefined if
 * no response is due: the connection broke, or the client keeps sending after its last request.
 */
export function unreadProblem({ code = '' }: { code?: string | undefined }): Problem | undefined {
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new Problem('HEADERS_TOO_LARGE', `The address and the headers may have at most ${MAX_HEADER_BYTES} bytes`)
  }
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') {
    return new Problem('PAYLOAD_TOO_LARGE', 'The chunk extensions of the body are too long')
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Problem('REQUEST_TIMEOUT', 'The request arrived too slowly')
  }
  if (code === 'HPE_CLOSED_CONNECTION' || !code.startsWith('HPE_')) return undefined
  return new Problem('MALFORMED_REQUEST', 'The request is not valid HTTP/1.1')
}

/** RFC 9112 §3.2: an HTTP/1.1 request must have a Host header. Node would refuse without the problem envelope. */
export function missingHost(req: IncomingMessage): Problem | undefined {
  if (req.headers.host !== undefined || req.httpVersion !== '1.1') return undefined
  return new Problem('MALFORMED_REQUEST', 'The request has no Host header')
}

export const newRequestId = () => formatId('request', newUuid())

/** How long a refused client may keep sending. If the connection closed at once, it could not read the response. */
const LINGER_MS = 2000

/** Responds to a request that no middleware has seen, and closes the connection. */
export function refuse(res: ServerResponse, problem: Problem, requestId: string): void {
  const { headers, body } = answerOf(problem, requestId)
  res.writeHead(problem.status, headers).end(body)
}

/** The same on a connection whose request could not be read. */
export function refuseConnection(socket: Duplex, problem: Problem, requestId: string): void {
  const { headers, body } = answerOf(problem, requestId)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const status = `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n`
  const linger = setTimeout(() => socket.destroy(), LINGER_MS).unref()
  socket.on('error', () => socket.destroy()).once('close', () => clearTimeout(linger))
  socket.end(`${status}${lines.join('')}\r\n${body}`)
}

function answerOf(problem: Problem, requestId: string) {
  const body = JSON.stringify(problemBody(problem, requestId))
  const headers = {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': String(Buffer.byteLength(body)),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    'X-Request-Id': requestId,
    Date: new Date().toUTCString(),
    Connection: 'close',
    ...problem.headers,
  }
  return { headers, body }
}
