import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'

/** A multipart form whose file is streamed to the handler. */
export interface MultipartBody {
  /** Text fields that came before the file. */
  fields: Record<string, string>
  file: { filename: string; mimeType: string; stream: Readable }
  /**
   * Resolves when the whole body has been read, with every text field of the form (also those behind the file).
   * Rejects with a Problem on a malformed body, a second file, an oversized field. The handler awaits it after the end
   * of the stream and before it records anything.
   */
  finished(): Promise<Record<string, string>>
}

/** A binary body. */
export interface BytesBody {
  stream: Readable
  headers: IncomingHttpHeaders
  /** From Content-Length; undefined when the client streams without one. */
  length: number | undefined
}

/**
 * How the request body arrives. `json` is parsed and validated; `text` is what was signed, and the handler parses it; the
 * others are streamed to the handler.
 */
export type BodyKind = 'json' | 'text' | 'multipart' | 'bytes'
/** The types of a `text`. */
export type TextType = 'application/json' | 'application/x-www-form-urlencoded'

/** A reply without the envelope: media, playlists, the OpenAPI document, pages. */
export interface RawReply {
  status: number
  headers: Record<string, string>
  body?: Readable | Buffer | string
}
