import type { IncomingMessage } from 'node:http'
import { Problem } from '../../lib/contract/problem.ts'
import type { TextType } from '../requests/bytes.ts'
import { ClientGone } from './request.ts'

export const JSON_LIMIT = 256 * 1024

/**
 * The JSON document of a request; `{}` when it has no body. express.json() would read an oversized body to its end
 * before it responds; this function refuses at once and discards the rest.
 */
export async function readJson(req: IncomingMessage): Promise<unknown> {
  if (!hasBody(req)) return {}
  requireType(req, JSON_TYPE, 'application/json')
  if (Number(req.headers['content-length'] ?? 0) > JSON_LIMIT) throw tooLarge()
  const bytes = await collect(req)
  if (bytes.length === 0) return {}
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (cause) {
    // The parser's message quotes the input, so only the log gets it.
    throw new Problem('MALFORMED_JSON', 'The request body is not valid JSON in UTF-8', { cause })
  }
}

const FORM_TYPE = /^application\/x-www-form-urlencoded\s*(?:;\s*charset="?utf-8"?\s*)?$/i

/** The text of a body, which must have this type. */
export async function readText(req: IncomingMessage, type: TextType): Promise<string> {
  requireType(req, type === 'application/json' ? JSON_TYPE : FORM_TYPE, type)
  if (Number(req.headers['content-length'] ?? 0) > JSON_LIMIT) throw tooLarge()
  const bytes = await collect(req)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    throw new Problem('VALIDATION_ERROR', 'The request body is not valid UTF-8', { cause })
  }
}

export const hasBody = (req: IncomingMessage) =>
  req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\s*(?:;\s*charset="?utf-8"?\s*)?$/i

export const isJson = (req: IncomingMessage) => JSON_TYPE.test(req.headers['content-type'] ?? '')

/** 415 unless the body has the wanted type and is not compressed. */
export function requireType(req: IncomingMessage, wanted: RegExp, name: string): void {
  const encoding = req.headers['content-encoding']
  const type = req.headers['content-type'] ?? ''
  if (wanted.test(type) && (encoding === undefined || encoding === 'identity')) return
  throw new Problem('UNSUPPORTED_CONTENT_TYPE', `The request body must be ${name}, not compressed`)
}

const tooLarge = () => new Problem('PAYLOAD_TOO_LARGE', `This body may have at most ${JSON_LIMIT} bytes`)

function collect(req: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const onData = (chunk: Buffer) => {
      size += chunk.length
      if (size <= JSON_LIMIT) chunks.push(chunk)
      else settle(() => reject(tooLarge()))
    }
    const onEnd = () => settle(() => resolve(Buffer.concat(chunks)))
    const onClose = () => settle(() => reject(new ClientGone()))
    const settle = (outcome: () => void) => {
      req.off('data', onData).off('end', onEnd).off('close', onClose)
      req.resume()
      outcome()
    }
    req.on('data', onData).on('end', onEnd).on('close', onClose)
  })
}
