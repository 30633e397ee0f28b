import { Agent, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { pipeline } from 'node:stream'

export interface Proxy {
  hand(incoming: IncomingMessage, outgoing: ServerResponse): void
  close(): void
}

/** Headers of a single connection (RFC 9110 §7.6.1). */
const HOP = ['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade']

const endToEnd = (headers: IncomingHttpHeaders) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP.includes(name)))

/** Hands requests to the API and answers back, streaming both ways (docs/adr/0022-the-page.md: why no library does). */
export function openProxy(api: URL): Proxy {
  const agent = new Agent({ keepAlive: true })
  return { hand: (incoming, outgoing) => hand(api, agent, incoming, outgoing), close: () => agent.destroy() }
}

function hand(api: URL, agent: Agent, incoming: IncomingMessage, outgoing: ServerResponse): void {
  const { 'transfer-encoding': coding } = incoming.headers
  // Node takes only the chunks of a body apart, so another coding would have to be passed on with its name.
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') return void outgoing.writeHead(501).end()
  // Node writes the body of a GET or DELETE of unknown length without any framing, and the API would take it for the
  // next request on this connection.
  const headers = { ...endToEnd(incoming.headers), ...(coding !== undefined && { 'transfer-encoding': 'chunked' }) }
  const { method, url: path } = incoming
  const onward = request({ host: api.hostname, port: api.port, agent, method, path, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode ?? 502, endToEnd(answer.headers))
    pipeline(answer, outgoing, () => {})
  })
  onward.on('error', () => {
    // The pipeline of an answer that has begun ends it. The API may answer before it has read the whole body.
    if (outgoing.headersSent) return
    const error = { code: 'SERVICE_UNAVAILABLE', message: 'The API does not answer' }
    outgoing.writeHead(503, { 'Content-Type': 'application/json' }).end(JSON.stringify({ error }))
  })
  // A browser that disconnects aborts the request to the API, in either direction.
  outgoing.on('close', () => onward.destroy())
  incoming.pipe(onward)
}
