import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { pipeline, type Readable } from 'node:stream'
import { Busboy, type BusboyHeaders, type BusboyInstance } from '@fastify/busboy'
import { Problem } from '../../lib/contract/problem.ts'
import { hashing, type Streamed } from './bytes-body.ts'
import { requireType } from './json-body.ts'
import { ClientGone } from './request.ts'
import type { MultipartBody } from './route.ts'
import { invalid } from './validate.ts'

const LIMITS = { fieldSize: 16 * 1024, fields: 32, files: 1, parts: 33, headerPairs: 32, headerSize: 8 * 1024 }
const FIELD_NAME = /^[a-z][a-z0-9_]{0,63}$/

type Form = Streamed<MultipartBody>

/**
 * Reads a form up to its file, which must be called `file`, and hands that over while it arrives. Rejects with a
 * Problem when the form ends without one or is not a form. Nothing is held but the text fields.
 */
export function readForm(req: IncomingMessage): Promise<Form> {
  const parser = open(req)
  const { promise, resolve, reject } = Promise.withResolvers<Form>()
  const whole = Promise.withResolvers<Record<string, string>>()
  // Whoever asks for it gets the error; nobody has to ask.
  whole.promise.catch(() => {})

  const fields = new Map<string, string>()
  let file: { stream: Readable; digest(): string | undefined; about: string } | undefined
  let fileRead = false
  let parsed = false
  let over = false

  const fail = (error: Error) => {
    if (over) return
    over = true
    stop()
    file?.stream.destroy(error)
    whole.reject(error)
    reject(error)
  }
  const stop = () => {
    req.off('close', onClose)
    req.unpipe(parser)
    // What still arrives is read into nothing: an answer can only be seen by a client that is not stuck sending.
    req.resume()
  }
  const settle = () => {
    if (over || !parsed) return
    if (!file) return fail(missing())
    if (!fileRead) return
    over = true
    stop()
    whole.resolve(Object.fromEntries(fields))
  }
  const onClose = () => {
    if (!req.complete) fail(new ClientGone())
  }

  parser.on('field', (name: string | undefined, value: string, _nameTruncated: boolean, valueTruncated: boolean) => {
    if (!name || !FIELD_NAME.test(name)) return // unknown fields are ignored
    if (valueTruncated) fail(invalid([{ field: `body.${name}`, issue: 'is too long' }]))
    else if (fields.has(name)) fail(invalid([{ field: `body.${name}`, issue: 'was sent twice' }]))
    else fields.set(name, value)
  })
  parser.on('file', (name, source, filename: string | undefined, _encoding, mimeType) => {
    // busboy reports a form that breaks off inside the file here and nowhere else.
    source.on('error', (error) => fail(malformed(error)))
    if (over) return void source.resume()
    if (name !== 'file' || !filename) return fail(missing())
    const meter = hashing()
    // Small files are whole before the handler looks at them; should the rest of the form fail then, nobody else listens.
    meter.stream.on('error', () => {})
    file = { ...meter, about: JSON.stringify([filename, mimeType]) }
    pipeline(source, meter.stream, (error) => {
      if (error) return fail(error)
      fileRead = true
      settle()
    })
    const body = {
      fields: Object.fromEntries(fields),
      file: { filename, mimeType, stream: meter.stream },
      finished: () => whole.promise,
    }
    resolve({
      body,
      digest: () => (fileRead && parsed && over ? digestOf(fields, file) : undefined),
      drain: async () => {
        meter.stream.resume()
        await whole.promise
      },
      abandon: () => fail(new Error('the handler did not read the whole form')),
    })
  })

  parser.on('error', (error: unknown) => fail(malformed(error)))
  for (const event of ['partsLimit', 'fieldsLimit'] as const) {
    parser.on(event, () => fail(invalid([{ field: 'body', issue: 'has too many parts' }])))
  }
  parser.on('filesLimit', () => fail(invalid([{ field: 'body.file', issue: 'was sent twice' }])))
  parser.on('finish', () => {
    parsed = true
    settle()
  })
  req.once('close', onClose)
  req.pipe(parser)
  return promise
}

function open(req: IncomingMessage): BusboyInstance {
  requireType(req, /^multipart\/form-data\s*(;|$)/i, 'multipart/form-data')
  try {
    return new Busboy({ headers: req.headers as BusboyHeaders, limits: LIMITS })
  } catch (cause) {
    throw malformed(cause)
  }
}

const missing = () => invalid([{ field: 'body.file', issue: 'is required' }])

const malformed = (cause: unknown) =>
  new Problem('VALIDATION_ERROR', 'The request body is not a whole multipart form', {
    cause,
    details: [{ field: 'body', issue: 'is malformed or ends early' }],
  })

/** Independent of boundary and order: a repeat by another attempt of the same client is the same form. */
function digestOf(fields: Map<string, string>, file: { digest(): string | undefined; about: string } | undefined) {
  const parts = [...fields].map(([name, value]) => JSON.stringify([name, value])).sort()
  const hash = createHash('sha256').update(JSON.stringify([...parts, file?.about, file?.digest()]))
  return hash.digest('hex')
}
