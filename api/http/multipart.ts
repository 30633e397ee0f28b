import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { pipeline, type Transform } from 'node:stream'
import { Busboy, type BusboyHeaders, type BusboyInstance } from '@fastify/busboy'
import { invalid, Problem } from '../../lib/contract/problem.ts'
import type { MultipartBody } from '../requests/bytes.ts'
import { hashing, type Streamed } from './bytes-body.ts'
import { requireType } from './json-body.ts'
import { ClientGone } from './request.ts'

const LIMITS = { fieldSize: 16 * 1024, fields: 32, files: 1, parts: 33, headerPairs: 32, headerSize: 8 * 1024 }
const FIELD_NAME = /^[a-z][a-z0-9_]{0,63}$/

type Form = Streamed<MultipartBody>

/** The state of reading a form. */
type Step =
  /** The fields before the file. */
  | 'fields'
  /** The handler is receiving the file. */
  | 'file'
  /** The handler has received the whole file; the form continues. */
  | 'after file'
  /** The form has ended; the handler has not yet received the whole file. */
  | 'rest of file'
  | 'whole'
  | 'failed'

/** The transitions of a form that has not failed. `parsed`: the closing boundary was read. */
const NEXT: Record<'began file' | 'read file' | 'parsed', Partial<Record<Step, Step>>> = {
  'began file': { fields: 'file' },
  'read file': { file: 'after file', 'rest of file': 'whole' },
  parsed: { file: 'rest of file', 'after file': 'whole' },
}

/**
 * Reads a form up to its file, which must be called `file`, and streams the file to the handler. Rejects with a Problem
 * when the form has no file or is malformed. Only the text fields are held in memory.
 */
export function readForm(req: IncomingMessage): Promise<Form> {
  const parser = open(req)
  const begun = Promise.withResolvers<Form>()
  const whole = Promise.withResolvers<Record<string, string>>()
  // A handler that has failed never awaits it.
  whole.promise.catch(() => {})

  const fields = new Map<string, string>()
  let step: Step = 'fields'
  let file: Transform | undefined

  const isOver = () => step === 'whole' || step === 'failed'
  function advance(event: keyof typeof NEXT): void {
    if (isOver()) return
    const next = NEXT[event][step]
    if (next === undefined) fail(missing())
    else if (next === 'whole') end()
    else step = next
  }
  function end(): void {
    step = 'whole'
    stop()
    whole.resolve(Object.fromEntries(fields))
  }
  function fail(error: Error): void {
    if (isOver()) return
    step = 'failed'
    stop()
    file?.destroy(error)
    whole.reject(error)
    begun.reject(error)
  }
  function stop(): void {
    req.off('close', onClose)
    req.unpipe(parser)
    // Discard what still arrives: a client that is blocked in sending would not read the response.
    req.resume()
  }
  function onClose(): void {
    if (!req.complete) fail(new ClientGone())
  }

  parser.on('field', (name: string | undefined, value: string, _nameTruncated: boolean, valueTruncated: boolean) => {
    if (!name || !FIELD_NAME.test(name)) return // ignore unknown fields
    const issue = issueOf(value, { isLong: valueTruncated, isSecond: fields.has(name) })
    if (issue) fail(invalid([{ field: `body.${name}`, issue }]))
    else fields.set(name, value)
  })
  parser.on('file', (name, source, given: string | undefined, _encoding, mimeType) => {
    // Only here does busboy report a form that ends inside the file.
    source.on('error', (error) => fail(malformed(error)))
    if (isOver()) return void source.resume()
    if (name !== 'file') return fail(missing())
    const filename = unescaped(given || UNNAMED)
    if (!isUnicode(filename)) return fail(invalid([{ field: 'body.file', issue: `has a file name that ${NOT_UTF8}` }]))
    const meter = hashing()
    file = meter.stream
    // A small file is complete before the handler reads it; if the form fails then, this is the only error listener.
    file.on('error', () => {})
    advance('began file')
    pipeline(source, file, (error) => {
      if (error) fail(error)
      else advance('read file')
    })
    begun.resolve({
      body: {
        fields: Object.fromEntries(fields),
        file: { filename, mimeType, stream: file },
        finished: () => whole.promise,
      },
      digest: () => (step === 'whole' ? digestOf(fields, [filename, mimeType], meter.digest()) : undefined),
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
  parser.on('finish', () => advance('parsed'))
  req.once('close', onClose)
  req.pipe(parser)
  return begun.promise
}

/** What a client calls its file that does not say. */
const UNNAMED = 'file'
const NOT_UTF8 = 'is not valid UTF-8'

function issueOf(value: string, { isLong, isSecond }: { isLong: boolean; isSecond: boolean }): string | undefined {
  if (isLong) return 'is too long'
  if (isSecond) return 'was sent twice'
  return isUnicode(value) ? undefined : NOT_UTF8
}

/**
 * busboy silently replaces bytes that are not UTF-8 by U+FFFD. A client that sends U+FFFD itself sends text that was
 * damaged before, and is refused too.
 */
const isUnicode = (text: string) => text.isWellFormed() && !text.includes('\uFFFD')

function open(req: IncomingMessage): BusboyInstance {
  requireType(req, /^multipart\/form-data\s*(;|$)/i, 'multipart/form-data')
  try {
    return new Busboy({
      headers: req.headers as BusboyHeaders,
      limits: LIMITS,
      // The file name is optional (RFC 7578 §4.2); a part without one would be a text field.
      isPartAFile: (name, type, filename) =>
        name === 'file' || filename !== undefined || type === 'application/octet-stream',
    })
  } catch (cause) {
    throw malformed(cause)
  }
}

const missing = () => invalid([{ field: 'body.file', issue: 'is required' }])

const malformed = (cause: unknown) =>
  new Problem('VALIDATION_ERROR', 'The request body is not a complete multipart form', {
    cause,
    details: [{ field: 'body', issue: 'is malformed or ends early' }],
  })

/** Clients write these three characters of a file name in this way, and no others, because a quotation mark ends it. */
const unescaped = (filename: string) => filename.replace(/%(?:22|0D|0A)/g, decodeURIComponent)

/** Independent of boundary and order: a client's repeat of a form has the same digest. */
function digestOf(fields: Map<string, string>, about: [filename: string, mimeType: string], file: string | undefined) {
  const parts = [...fields].map(([name, value]) => JSON.stringify([name, value])).sort()
  return createHash('sha256')
    .update(JSON.stringify([...parts, JSON.stringify(about), file]))
    .digest('hex')
}
