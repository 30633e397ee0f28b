import { createHash } from 'node:crypto'
import { Transform } from 'node:stream'
import * as z from 'zod'
import { type FieldIssue, Problem } from '../../../../lib/contract/problem.ts'

/** What a client announces about a body before it sends it. */
export interface Expected {
  size: number
  /** Raw digests. */
  sha256?: Buffer | undefined
  md5?: Buffer | undefined
}

const OTHER = '(?!sha-256=)[a-z0-9*_.-]+=:[A-Za-z0-9+/=]*:'
const SHA256 = 'sha-256=:[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=:'
const ENTRY = `\\s*(?:${OTHER}|${SHA256})\\s*`

/** The headers as the OpenAPI document describes them; the functions below parse them. */
export const ChunkDigests = z.object({
  'Repr-Digest': z
    .string()
    .optional()
    .meta({ description: 'RFC 9530: SHA-256 of the chunk', pattern: `^${ENTRY}(?:,${ENTRY})*$` }),
  'Content-MD5': z
    .string()
    .optional()
    .meta({ description: 'RFC 1864', pattern: '^\\s*[A-Za-z0-9+/]{21}[AQgw]==\\s*$' }),
})

const badField = (field: string, issue: string): FieldIssue[] => [{ field, issue }]
const invalid = (field: string, issue: string) =>
  new Problem('VALIDATION_ERROR', 'The request is not valid', { details: badField(field, issue) })

/** `Content-MD5` (RFC 1864). */
export function parseContentMd5(header: string | undefined): Buffer | undefined {
  if (header === undefined) return undefined
  return base64Of(header.trim(), 16) ?? refuse('header.Content-MD5', 'must be the base64 of an MD5 digest')
}

/** SHA-256 in `Repr-Digest: sha-256=:…:` (RFC 9530); ignores other algorithms, as the RFC requires. */
export function parseReprDigest(header: string | undefined): Buffer | undefined {
  if (header === undefined) return undefined
  const entries = header.split(',').map((entry) => /^\s*([a-z0-9*_.-]+)=:([A-Za-z0-9+/=]*):\s*$/.exec(entry))
  if (entries.some((entry) => entry === null)) return refuse('header.Repr-Digest', 'must have the syntax of RFC 9530')
  const sha256 = entries.find((entry) => entry?.[1] === 'sha-256')?.[2]
  if (sha256 === undefined) return undefined
  return base64Of(sha256, 32) ?? refuse('header.Repr-Digest', 'must hold the base64 of a SHA-256 digest')
}

function base64Of(text: string, length: number): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64')
  return bytes.length === length && bytes.toString('base64') === text ? bytes : undefined
}

function refuse(field: string, issue: string): never {
  throw invalid(field, issue)
}

/**
 * Passes on exactly what was announced, or fails with a Problem. Holds back the last bytes until all checks have
 * passed: a store that expects a certain length must not see the end of a wrong body.
 */
export function checking(expected: Expected): { stream: Transform; sha256(): string } {
  const sha256 = createHash('sha256')
  const md5 = expected.md5 && createHash('md5')
  let size = 0
  let held: Buffer | undefined
  let digest = ''
  const stream = new Transform({
    // One buffer after the other: a byte stream joins its waiting buffers, which copies all of them once more.
    readableObjectMode: true,
    readableHighWaterMark: 1,
    transform(chunk: Buffer, _encoding, done) {
      size += chunk.length
      if (size > expected.size) return done(wrongLength(expected.size))
      sha256.update(chunk)
      md5?.update(chunk)
      if (held) this.push(held)
      held = chunk
      done()
    },
    flush(done) {
      if (size !== expected.size) return done(wrongLength(expected.size))
      const actual = sha256.digest()
      digest = actual.toString('hex')
      if (expected.sha256 && !actual.equals(expected.sha256)) return done(mismatch('header.Repr-Digest'))
      if (expected.md5 && !md5?.digest().equals(expected.md5)) return done(mismatch('header.Content-MD5'))
      if (held) this.push(held)
      done()
    },
  })
  return { stream, sha256: () => digest }
}

export const wrongLength = (bytes: number) => invalid('body', `must be ${bytes} bytes long`)

export const mismatch = (field: string) =>
  new Problem('CHECKSUM_MISMATCH', 'The bytes that arrived do not match the checksum', {
    details: badField(field, 'does not match the bytes that arrived'),
  })
