import { randomUUID } from 'node:crypto'
import { open, stat } from 'node:fs/promises'
import { basename, extname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod'

const MIME: Record<string, string> = {
  '.jpg': 'image/jpeg',
  '.png': 'image/png',
  '.heic': 'image/heic',
  '.mov': 'video/quicktime',
  '.webm': 'video/webm',
  '.mkv': 'video/x-matroska',
  '.m4v': 'video/x-m4v',
}

export interface Client {
  /** Returns the `data` of the answer. Throws an error with request and answer for anything but success. */
  call(method: string, path: string, body?: unknown): Promise<unknown>
  put(path: string, bytes: Buffer): Promise<void>
  /** The access token, for the printed curl commands. */
  readonly token: string
}

/** The status of an album is answered without `data`. */
const Answer = z.object({ data: z.unknown().optional() })

/** Signs in over the public API, as a phone would. */
export async function signIn(base: string, account: { email: string; password: string }): Promise<Client> {
  const { email, password } = account
  const Tokens = z.object({ access_token: z.string(), refresh_token: z.string() })
  let tokens = Tokens.parse(await send(base, 'POST', '/api/auth/login', { email, password }))

  /** The conversion of a long video may take longer than an access token is valid. */
  async function authorized<T>(work: (token: string) => Promise<T>): Promise<T> {
    try {
      return await work(tokens.access_token)
    } catch (error) {
      if (!(error instanceof Refused && error.status === 401)) throw error
      const { refresh_token } = tokens
      tokens = Tokens.parse(await send(base, 'POST', '/api/auth/refresh', { refresh_token }))
      return work(tokens.access_token)
    }
  }
  return {
    call: (method, path, body) => authorized((token) => send(base, method, path, body, token)),
    put: async (path, bytes) => void (await authorized((token) => send(base, 'PUT', path, bytes, token))),
    get token() {
      return tokens.access_token
    },
  }
}

export class Refused extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** The page shares the limits of the member: while it uploads photos, it can use them up. */
const PATIENCE_MS = 120_000

/** Repeats what a busy server refuses, as one request. */
async function send(base: string, method: string, path: string, body?: unknown, token?: string): Promise<unknown> {
  const request = requestOf(method, body, token)
  const end = performance.now() + PATIENCE_MS
  for (;;) {
    const response = await fetch(base + path, request)
    const text = await response.text()
    if (response.ok) return text === '' ? undefined : Answer.parse(JSON.parse(text)).data
    const waitMs = Number(response.headers.get('Retry-After') ?? 1) * 1000
    const isBusy = response.status === 429 || response.status === 503
    if (!isBusy || performance.now() + waitMs > end)
      throw new Refused(response.status, `${method} ${path} answered ${response.status}: ${text}`)
    await sleep(waitMs)
  }
}

function requestOf(method: string, body: unknown, token: string | undefined): RequestInit {
  const isBytes = Buffer.isBuffer(body)
  return {
    method,
    headers: {
      ...(token && { Authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'Content-Type': isBytes ? 'application/octet-stream' : 'application/json' }),
      ...(method === 'POST' && { 'Idempotency-Key': randomUUID() }),
    },
    ...(body !== undefined && { body: isBytes ? new Uint8Array(body) : JSON.stringify(body) }),
  }
}

const Started = z.object({ upload_id: z.string(), total_chunks: z.int(), chunk_size_bytes: z.int() })

/** Uploads a file in chunks, the last ones first and several at once, and returns the id of the media item. */
export async function upload(
  client: Client,
  organization: string,
  path: string,
  onProgress: (sent: number, total: number) => void,
  /** The same UUID for the photo and the video of a Live Photo. */
  pairId?: string,
): Promise<string> {
  const { size } = await stat(path)
  const base = `/api/media/${organization}`
  const started = Started.parse(
    await client.call('POST', `${base}/upload`, {
      filename: basename(path),
      mime_type: MIME[extname(path).toLowerCase()] ?? 'video/mp4',
      file_size_bytes: size,
      chunk_size_bytes: (size < 200_000_000 ? 5 : 32) * 1024 * 1024,
      ...(pairId && { live_photo_pair_id: pairId }),
    }),
  )
  const file = await open(path)
  try {
    const queue = Array.from({ length: started.total_chunks }, (_, i) => i).reverse()
    let sent = 0
    const worker = async () => {
      for (let index = queue.shift(); index !== undefined; index = queue.shift()) {
        const start = index * started.chunk_size_bytes
        const bytes = Buffer.alloc(Math.min(started.chunk_size_bytes, size - start))
        await file.read(bytes, 0, bytes.length, start)
        await client.put(`${base}/upload/${started.upload_id}/${index}`, bytes)
        sent += bytes.length
        onProgress(sent, size)
      }
    }
    await Promise.all([worker(), worker(), worker()])
  } finally {
    await file.close()
  }
  const merged = await client.call('POST', `${base}/merge`, { upload_id: started.upload_id })
  return z.object({ media_id: z.string() }).parse(merged).media_id
}

const Url = z.string().nullable()
export const Media = z.object({
  media_id: z.string(),
  original_filename: z.string(),
  mime_type: z.string(),
  captured_at: z.string().nullable(),
  placeholder: z.string().nullable(),
  upload_status: z.enum(['processing', 'completed', 'failed']),
  original_url: z.string(),
  conversion_progress: z
    .object({ percent: z.number(), speed: z.string().nullable(), eta_sec: z.number().nullable() })
    .nullable(),
  variants: z.object({
    image_url: Url,
    image_webp_url: Url,
    image_thumb_url: Url,
    hls_master_url: Url,
    live_photo_video_url: Url,
  }),
})
export type Media = z.output<typeof Media>

/** Polls until the conversion has ended and calls `show` with every answer. Throws the reason when it failed. */
export async function untilConverted(
  client: Client,
  organization: string,
  mediaId: string,
  show: (media: Media) => void,
): Promise<Media> {
  for (;;) {
    const media = Media.parse(await client.call('GET', `/api/media/${organization}/${mediaId}`))
    show(media)
    if (media.upload_status === 'completed') return media
    if (media.upload_status === 'failed') {
      const about = await client.call('GET', `/api/media/${organization}/${mediaId}/metadata`)
      const Failure = z.object({ conversion: z.object({ error: z.object({ code: z.string(), message: z.string() }) }) })
      const { code, message } = Failure.parse(about).conversion.error
      throw new Error(`${media.original_filename} could not be converted: ${message} (${code})`)
    }
    await sleep(500)
  }
}

/** The newest media items as a client sees them, and how many there are in all. */
export async function library(client: Client, organization: string): Promise<{ media: Media[]; total: number }> {
  const base = `/api/media/${organization}`
  const [list, { months }] = await Promise.all([
    client
      .call('GET', `${base}?sort=captured_at&limit=100`)
      .then((data) => z.object({ media: z.array(Media) }).parse(data)),
    client.call('GET', `${base}/months`).then((data) => Months.parse(data)),
  ])
  return { media: list.media, total: months.reduce((sum, { count }) => sum + count, 0) }
}
const Months = z.object({ months: z.array(z.object({ count: z.int() })) })
