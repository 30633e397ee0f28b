import { createHash } from 'node:crypto'
import { failpoint } from '../failpoint.ts'
import { coldKeyOf } from './cold-key.ts'
import { type CopyOptions, type ObjectInfo, type ObjectStore, StoreError } from './object-store.ts'

export interface MoveOptions extends CopyOptions {
  /** What the source is known to be, in hexadecimal. Without it the source is read once to learn it. */
  sha256?: string | undefined
  /** Bytes that the source is known to have. */
  size?: number | undefined
}

/**
 * Makes the copy of an object in the cold tier, and reads it back to compare it: entity tags prove nothing, since a server
 * computes them anew. Removes nothing. The caller switches its row to the returned key, and deletes the source afterward.
 * Safe to repeat, also once the source is gone. Throws NotFound without source and copy, InvalidPart for a source or a copy
 * that is not what it should be.
 */
export async function moveToCold(
  store: ObjectStore,
  key: string,
  o: MoveOptions = {},
): Promise<{ key: string; size: number; sha256: string }> {
  const to = coldKeyOf(key)
  const { signal, ...known } = o
  const source = await store.head(key)
  if (!source) return provedCopy(store, to, known, signal)
  const sha256 = o.sha256 ?? (await digestOf(store, key, signal)).sha256
  const wanted = { sha256, size: o.size ?? source.size }
  if (source.size !== wanted.size) throw differs(key, `has ${source.size} bytes instead of ${wanted.size}`)
  const before = await store.head(to)
  if (before?.size === wanted.size) {
    const done = await provedCopy(store, to, wanted, signal).catch(unlessDiffers)
    if (done) return done
  }
  await store.copy(key, to, o)
  failpoint('store.copied')
  await mustBeUnchanged(store, source)
  // A copy that differs stays: another process may have proved its own and switched the row meanwhile. A retry replaces it.
  const made = await provedCopy(store, to, wanted, signal)
  failpoint('store.copy-proved')
  return made
}

async function provedCopy(
  store: ObjectStore,
  to: string,
  wanted: { sha256?: string | undefined; size?: number | undefined },
  signal: AbortSignal | undefined,
): Promise<{ key: string; size: number; sha256: string }> {
  const { size, sha256 } = await digestOf(store, to, signal)
  if (wanted.size !== undefined && size !== wanted.size) throw differs(to, `has ${size} bytes, not ${wanted.size}`)
  if (wanted.sha256 !== undefined && sha256 !== wanted.sha256) throw differs(to, 'has another SHA-256')
  return { key: to, size, sha256 }
}

/** Originals are written once: another one is an incident, and no reason to begin again. */
async function mustBeUnchanged(store: ObjectStore, source: ObjectInfo): Promise<void> {
  const now = await store.head(source.key)
  if (now && (now.etag !== source.etag || now.size !== source.size)) {
    throw differs(source.key, 'changed while it was copied')
  }
}

async function digestOf(store: ObjectStore, key: string, signal: AbortSignal | undefined) {
  const hash = createHash('sha256')
  let size = 0
  const { body } = await store.get(key, undefined, signal)
  for await (const chunk of body as AsyncIterable<Buffer>) {
    hash.update(chunk)
    size += chunk.length
  }
  return { size, sha256: hash.digest('hex') }
}

const differs = (key: string, why: string) => new StoreError('InvalidPart', `${key} ${why}`)

function unlessDiffers(error: unknown): undefined {
  if (!(error instanceof StoreError && error.code === 'InvalidPart')) throw error
  return undefined
}
