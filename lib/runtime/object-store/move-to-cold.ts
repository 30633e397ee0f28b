import { createHash } from 'node:crypto'
import { coldKeyOf } from '../../contract/cold-key.ts'
import { failpoint } from '../failpoint.ts'
import { inParts } from './in-parts.ts'
import { type CopyOptions, type ObjectInfo, type ObjectStore, StoreError } from './object-store.ts'

/** `onPart` is asked before bytes are read to compare them, too. */
export interface MoveOptions extends CopyOptions {
  /** What the source is known to be, in hexadecimal. Without it the source is read once to learn it. */
  sha256?: string | undefined
  /** Bytes that the source is known to have. */
  size?: number | undefined
}

export interface ColdCopy {
  key: string
  size: number
  sha256: string
}

/**
 * Makes the copy of an object in the cold tier, and reads it back to compare it: entity tags prove nothing, since a server
 * computes them anew. Removes nothing. The caller switches its row to the returned key, and then ends the source with
 * `deleteForGood`. Safe to repeat, by several at once, and once the source is gone. Throws NotFound without source and copy;
 * Changed for a source that is not what it should be, which no repetition heals; Unavailable for a copy that differs from
 * its source.
 */
export async function moveToCold(store: ObjectStore, key: string, o: MoveOptions = {}): Promise<ColdCopy> {
  const to = coldKeyOf(key)
  const source = await store.head(key)
  if (!source) return keptCopy(store, to, o)
  if (o.size !== undefined && source.size !== o.size)
    throw changed(key, `has ${source.size} bytes instead of ${o.size}`)
  const wanted: ColdCopy = { key: to, size: source.size, sha256: o.sha256 ?? (await digestOf(store, key, o)).sha256 }
  const before = await store.head(to)
  if (before?.size === wanted.size && isSame(await digestOf(store, to, o), wanted)) return wanted
  const { signal, onPart } = o
  await store.copy(key, to, { ...(signal && { signal }), ...(onPart && { onPart }) })
  failpoint('store.copied')
  await mustBeUnchanged(store, source)
  const made = await digestOf(store, to, o)
  if (!isSame(made, wanted)) throw await whyDifferent(store, key, { made, o })
  failpoint('store.copy-proved')
  return wanted
}

const isSame = (made: Omit<ColdCopy, 'key'>, { size, sha256 }: ColdCopy) => made.size === size && made.sha256 === sha256

/** The row was not switched before a process died after the deletion, or it is asked once more. */
async function keptCopy(store: ObjectStore, to: string, o: MoveOptions): Promise<ColdCopy> {
  const { size, sha256 } = await digestOf(store, to, o)
  if (o.size !== undefined && size !== o.size) throw changed(to, `has ${size} bytes instead of ${o.size}`)
  if (o.sha256 !== undefined && sha256 !== o.sha256) throw changed(to, 'has another SHA-256')
  return { key: to, size, sha256 }
}

/**
 * Why a copy is not what was wanted. It stays: another process may have proved and switched to a right one since it was
 * read, and the next move replaces a wrong one.
 */
async function whyDifferent(
  store: ObjectStore,
  key: string,
  { made, o }: { made: Omit<ColdCopy, 'key'>; o: MoveOptions },
): Promise<StoreError> {
  const isFaithful = o.sha256 !== undefined && (await digestOf(store, key, o)).sha256 === made.sha256
  return isFaithful
    ? changed(key, 'has another SHA-256 than it had')
    : new StoreError('Unavailable', `The copy of ${key} differs from it`)
}

/** Originals are written once: another one is an incident, and no reason to begin again. */
async function mustBeUnchanged(store: ObjectStore, source: ObjectInfo): Promise<void> {
  const now = await store.head(source.key)
  if (!now || (now.etag === source.etag && now.size === source.size)) return
  throw changed(source.key, 'changed while it was copied')
}

async function digestOf(store: ObjectStore, key: string, o: CopyOptions): Promise<Omit<ColdCopy, 'key'>> {
  const hash = createHash('sha256')
  let size = 0
  const { info, body } = await store.get(key, undefined, o.signal)
  for await (const chunk of inParts({ size: info.size, body }, o)) {
    hash.update(chunk)
    size += chunk.length
  }
  return { size, sha256: hash.digest('hex') }
}

const changed = (key: string, why: string) => new StoreError('Changed', `${key} ${why}`)
