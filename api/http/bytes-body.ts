import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { PassThrough, type Readable, Transform } from 'node:stream'
import { requireType } from './json-body.ts'
import { ClientGone } from './request.ts'
import type { BytesBody } from './route.ts'

/** What the HTTP layer needs of a body that streams, besides what the handler sees. */
export interface Streamed<B> {
  body: B
  /** Identifies what was sent, once all of it has been read; undefined before. */
  digest(): string | undefined
  /** Reads the rest into nothing; resolves when the digest is known, rejects if the body turns out bad. */
  drain(): Promise<void>
  /** The handler is done, whether it read everything or not: the rest must not reach it any more. */
  abandon(): void
}

/** The request's bytes as a stream of their own. `identified` says whether anybody will ask for the digest. */
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
 * Destroying a request destroys its connection, and then nobody gets the answer. A handler therefore reads a stream
 * of its own: when it stops early, the request runs on into nothing; when the client goes away, the stream fails.
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
  // An error of this stream that nobody listens to any more must not end the process.
  into.on('error', () => {})
  req.pipe(into)
  return into
}

/** Passes bytes on and knows their SHA-256 when they have ended. */
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
