import type { IncomingMessage, ServerResponse } from 'node:http'
import { ProgressReport, type ProgressSubject, verifyProgressToken } from '../../lib/contract/progress.ts'
import type { Log } from '../../lib/runtime/log.ts'

export const MAX_BODY_BYTES = 4096

/** `gone`: the resource is finished or deleted. `unknown`: this replica's caches are not complete yet. */
export type SubjectState = 'running' | 'gone' | 'unknown'

export interface ReceiverOptions {
  /** The key that tokens were signed with. */
  key: string
  stateOf(subject: ProgressSubject): SubjectState
  accept(subject: ProgressSubject, report: ProgressReport): void
  onAnswer?(status: number): void
  log: Log
}

class Refused extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/**
 * `POST /progress` with the bearer token of one Job. 202: accepted, written soon. 401: missing or invalid token. 410:
 * the resource is deleted or finished, so stop reporting. 503: retry later.
 */
export const progressHandler =
  (options: ReceiverOptions) =>
  (req: IncomingMessage, res: ServerResponse): void => {
    receive(req, options)
      .then(
        () => 202,
        (error: unknown) => {
          if (error instanceof Refused) return error.status
          options.log.warn({ err: error }, 'progress report failed')
          return 500
        },
      )
      .then((status) => {
        options.onAnswer?.(status)
        // Close the connection instead of reading the rest of a refused body.
        const headers = { 'content-length': '0', ...(status === 401 && { 'www-authenticate': 'Bearer' }) }
        res.writeHead(status, req.complete ? headers : { ...headers, connection: 'close' }).end()
      })
      .catch((error: unknown) => options.log.warn({ err: error }, 'could not answer'))
  }

async function receive(req: IncomingMessage, options: ReceiverOptions): Promise<void> {
  if (req.url?.split('?')[0] !== '/progress') throw new Refused(404, 'no such path')
  if (req.method !== 'POST') throw new Refused(405, 'only POST')
  const subject = subjectOf(req, options.key)
  const state = options.stateOf(subject)
  if (state === 'gone') throw new Refused(410, 'gone')
  if (state === 'unknown') throw new Refused(503, 'not ready')
  const report = ProgressReport.safeParse(parseJson(await readBody(req)))
  if (!report.success) throw new Refused(400, 'not a progress report')
  options.accept(subject, report.data)
}

function subjectOf(req: IncomingMessage, key: string): ProgressSubject {
  const token = /^Bearer ([\w.-]{1,2048})$/i.exec(req.headers.authorization ?? '')?.[1]
  const subject = token === undefined ? undefined : verifyProgressToken(key, token)
  if (!subject) throw new Refused(401, 'no valid token')
  return subject
}

async function readBody(req: IncomingMessage): Promise<string> {
  if (Number(req.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw new Refused(413, 'too large')
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of req as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_BODY_BYTES) throw new Refused(413, 'too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Refused(400, 'not JSON')
  }
}
