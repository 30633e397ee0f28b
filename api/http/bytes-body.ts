import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { PassThrough, type Readable, Transform } from 'node:stream'
import type { BytesBody } from '../requests/bytes.ts'
import { requireType } from './json-body.ts'
import { ClientGone } from './request.ts'

/** A streamed body: what the handler sees, and what the HTTP layer needs. */
export interface Streamed<B> {
  body: B
  /** Identifies the content; undefined until all of it has been read. */
  digest(): string | undefined
  /** Discards the rest; resolves when the digest is known, rejects if the body is invalid. */
  drain(): Promise<void>
  /** Called when the handler has ended, even if it has not read everything: the rest no longer reaches it. */
  abandon(): void
}

/** The request's bytes as a separate stream. `identified`: whether the digest is needed. */
export function readBytes(req: IncomingMessage, identified: boolean): Streamed<BytesBody> {
  requireType(req, /^application\/octet-stream\s*(;|$)/i, 'application/octet-stream')
  const meter = identified ? hashing() : { stream: new PassThrough(), digest: () => undefined }
  const stream = detached(req, meter.stream)
  const length = req.headers['content-length']
  return {
    body: { stream, headers: req.headers, length: length === undefined ? undefined : Number(length) },
    digest: meter.digest,
    drain: () =>
      new Promise((resolve, reject) => {
        stream.once('error', reject).once('end', resolve).resume()
      }),
    abandon: () => void stream.destroy(),
  }
}

/**
 * Destroying a request destroys its connection, and the client gets no response. A handler therefore reads a separate
 * stream: when the handler stops early, the rest of the request is discarded; when the client disconnects, the stream
 * fails.
 */
function detached(req: IncomingMessage, into: PassThrough | Transform): Readable {
  const onClose = () => {
    if (!req.complete) into.destroy(new ClientGone())
  }
  req.once('close', onClose)
  into.once('close', () => {
    req.off('close', onClose)
    req.unpipe(into)
    req.resume()
  })
  // An error that occurs after the handler has removed its listeners must not end the process.
  into.on('error', () => {})
  req.pipe(into)
  return into
}

/** Passes bytes through; after the last one `digest` returns their SHA-256. */
export function hashing(): { stream: Transform; digest(): string | undefined } {
  const hash = createHash('sha256')
  let digest: string | undefined
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk)
      done(null, chunk)
    },
    flush(done) {
      digest = hash.digest('hex')
      done()
    },
  })
  return { stream, digest: () => digest }
}
