import { randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

/** Writes a body to a file that appears whole or not at all. */
export async function saveBody(body: Readable, path: string, signal?: AbortSignal): Promise<void> {
  const half = `${path}.${randomUUID()}`
  try {
    await pipeline(body, createWriteStream(half, { flags: 'wx', mode: 0o600 }), signal ? { signal } : {})
    await rename(half, path)
  } finally {
    await rm(half, { force: true })
  }
}
