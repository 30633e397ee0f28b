import { createHash } from 'node:crypto'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { coldOriginalKey, originalKey } from '../../../lib/contract/object-keys.ts'
import { type ObjectStore, StoreError } from '../../../lib/runtime/object-store/object-store.ts'
import type { Original } from './belonging-queries.ts'

interface Copying {
  store: ObjectStore
  signal: AbortSignal
  pace(bytes: number): Promise<void>
}

/**
 * Makes the cold copy of an original, unless it is there, and proves that it is the same: by its SHA-256, that of the row or
 * of the bytes that were copied. Returns the digest. The first copy stays where it is.
 */
export async function copyToCold(deps: Copying, row: Original): Promise<string> {
  const [from, to] = [originalKey(row.orgId, row.id), coldOriginalKey(row.orgId, row.id)]
  const source = await deps.store.head(from)
  if (!source) throw new StoreError('NotFound', `the original of ${row.id} is missing`)
  const expected = row.sha256 ?? (await digestOf(deps, from))
  const there = await deps.store.head(to)
  if (there?.size === source.size && (await digestOf(deps, to)) === expected) return expected
  await deps.pace(source.size)
  const { body } = await deps.store.get(from, undefined, deps.signal)
  const digest = hashing()
  const piping = pipeline(body, digest.stream, { signal: deps.signal })
  piping.catch(() => {})
  await deps.store.put(to, digest.stream, { contentType: row.mimeType, size: source.size, signal: deps.signal })
  await piping
  // A source that is not what was uploaded is an incident: nothing may replace it, and no retry heals it.
  if (digest.value() !== expected) throw new StoreError('BadDigest', `the original of ${row.id} has changed`)
  if ((await digestOf(deps, to)) !== expected) throw new StoreError('BadDigest', `the cold copy of ${row.id} differs`)
  return expected
}

async function digestOf({ store, signal, pace }: Copying, key: string): Promise<string> {
  const { info, body } = await store.get(key, undefined, signal)
  await pace(info.size)
  const hash = createHash('sha256')
  for await (const chunk of body) hash.update(chunk as Buffer)
  return hash.digest('hex')
}

function hashing() {
  const hash = createHash('sha256')
  const stream = new Transform({
    transform(chunk, _, done) {
      hash.update(chunk)
      done(null, chunk)
    },
  })
  let value: string | undefined
  return {
    stream,
    value: () => {
      value ??= hash.digest('hex')
      return value
    },
  }
}
