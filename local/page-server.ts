import { randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Log } from '../lib/runtime/log.ts'
import { closeServer, listenOnPort } from './http-server.ts'
import { mailSafety, readMailHtml, readOutbox } from './outbox.ts'
import { openProxy } from './page-proxy.ts'
import { readWebFile, webFile, webSafety } from './web-files.ts'

export interface PageAccount {
  label: string
  name: string
  email: string
  password: string
}

export interface PageOptions {
  /** 0 takes a free one. */
  port: number
  /** The API's public address; the page reaches it through its own origin, so the API needs no CORS. */
  api: string
  accounts: PageAccount[]
  /** The folder of the mails. */
  mail: string
  log: Log
}

export interface PageServer {
  url: string
  port: number
  /** The address of the page with the key that shows the accounts. Anyone who has it can sign in as any of them. */
  link(options?: { account?: string; media?: string; event?: string; album?: string; highlight?: string }): string
  close(): Promise<void>
}

const SAFETY = webSafety()

/** Serves the demo page and proxies `/v1`, `/d` and `/q` to the API, streaming both ways. Listens on this machine only. */
export async function startPageServer(o: PageOptions): Promise<PageServer> {
  const key = randomBytes(16).toString('base64url')
  const proxy = openProxy(new URL(o.api))
  // For those who came by the link, which shows all accounts and their mails.
  const secrets: Record<string, (isKnown: boolean) => unknown> = {
    '/directory': (isKnown) => ({ accounts: isKnown ? o.accounts : [], has_outbox: isKnown }),
    '/outbox.json': async (isKnown) => ({ mails: isKnown ? await readOutbox(o.mail, key) : [] }),
  }
  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    // Another site may point its own name at 127.0.0.1 (DNS rebinding), so only the names of this machine are accepted.
    if (!/^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/.test(incoming.headers.host ?? '')) return refuse(outgoing, 421)
    // Cut, not parsed as a URL: `//[` is a legal request target and not a URL.
    const [path = '/'] = (incoming.url ?? '/').split('?', 1)
    if (/^\/(v1|d|q)\//.test(path)) return proxy.hand(incoming, outgoing)
    const show = secrets[path]
    if (show) return json(outgoing, await show(isKnown(key, incoming)))
    if (path.startsWith('/mail/')) return mail(o, key, path, outgoing)
    await file(path, incoming, outgoing)
  }
  const server = createServer((incoming, outgoing) => {
    serve(incoming, outgoing).catch((error: unknown) => {
      o.log.error({ err: error }, 'the page server failed')
      if (outgoing.headersSent) outgoing.destroy()
      else refuse(outgoing, 500)
    })
  })
  const port = await listenOnPort(server, o.port)
  const url = `http://127.0.0.1:${port}`
  return {
    url,
    port,
    // In the fragment, which browsers neither send nor log nor put into the Referer.
    link: (options = {}) => `${url}/#${new URLSearchParams({ key, ...options })}`,
    async close() {
      proxy.close()
      await closeServer(server)
    },
  }
}

function refuse(outgoing: ServerResponse, status: number): void {
  outgoing.writeHead(status, { ...SAFETY, 'Content-Type': 'text/plain' }).end(`${status}\n`)
}

/** Whether the request has the key of the page's link. */
function isKnown(key: string, incoming: IncomingMessage): boolean {
  const given = Buffer.from(String(incoming.headers['x-page-key'] ?? ''))
  const wanted = Buffer.from(key)
  return given.length === wanted.length && timingSafeEqual(given, wanted)
}

function json(outgoing: ServerResponse, body: unknown): void {
  outgoing.writeHead(200, { ...SAFETY, 'Content-Type': 'application/json', 'Cache-Control': 'no-store' })
  outgoing.end(JSON.stringify(body))
}

async function mail(o: PageOptions, key: string, path: string, outgoing: ServerResponse): Promise<void> {
  const html = await readMailHtml(o.mail, key, path)
  if (html === undefined) refuse(outgoing, 404)
  else outgoing.writeHead(200, mailSafety(o.api)).end(html)
}

async function file(path: string, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const found = webFile(path)
  if (!found) return refuse(outgoing, 404)
  if (incoming.method !== 'GET' && incoming.method !== 'HEAD') return refuse(outgoing, 405)
  const { bytes, headers } = await readWebFile(found)
  outgoing.writeHead(200, headers).end(incoming.method === 'HEAD' ? undefined : bytes)
}
