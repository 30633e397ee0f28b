import type * as z from 'zod'
import { MAX_MANIFEST_BYTES } from '../../lib/contract/manifest.ts'
import { manifestKey } from '../../lib/contract/object-keys.ts'
import { type ObjectStore, StoreError } from '../../lib/runtime/object-store/object-store.ts'
import { ObjectTooLarge, readText } from '../../lib/runtime/object-store/read-text.ts'
import { isKeepable } from '../requests/text.ts'

/** The manifest comes from a pod that has read an untrusted file: a name in a link must not leave the prefix. */
const FILE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*\.(m3u8|jpg|webp)$/

/** The manifest is missing or unusable. A retry helps only if a job writes it in the meantime. */
export class ManifestError extends Error {
  override readonly name = 'ManifestError'
}

export interface ExpectedManifest<M> {
  schema: z.ZodType<M>
  /** The id that the manifest must have. */
  id: string
  /** The files that links will name. */
  filesOf(manifest: M): string[]
}

/** Reads and checks the manifest below a prefix. Throws ManifestError; any other error is an outage of the store. */
export async function readManifest<M extends { id: string }>(
  store: ObjectStore,
  prefix: string,
  expected: ExpectedManifest<M>,
): Promise<M> {
  const key = manifestKey(prefix)
  const parsed = expected.schema.safeParse(parseJson(await textOf(store, key), key))
  if (!parsed.success) throw new ManifestError(`${key} does not fit its schema: ${parsed.error.message}`)
  const manifest = parsed.data
  if (manifest.id !== expected.id) throw new ManifestError(`${key} belongs to something else`)
  if (!expected.filesOf(manifest).every((name) => FILE_NAME.test(name)))
    throw new ManifestError(`${key} names a file outside its prefix`)
  return manifest
}

async function textOf(store: ObjectStore, key: string): Promise<string> {
  try {
    return await readText(store, key, { maxBytes: MAX_MANIFEST_BYTES })
  } catch (error) {
    if (error instanceof StoreError && error.code === 'NotFound') throw new ManifestError(`there is no ${key}`)
    if (error instanceof ObjectTooLarge) throw new ManifestError(error.message, { cause: error })
    throw error
  }
}

function parseJson(text: string, key: string): unknown {
  const kept = (name: string, value: unknown) => {
    // Every attempt to record it would fail, and the media item would keep its slot forever.
    if (!isKeepable(name) || (typeof value === 'string' && !isKeepable(value)))
      throw new ManifestError(`${key} contains text that Postgres cannot store`)
    return value
  }
  try {
    return JSON.parse(text, kept)
  } catch (cause) {
    throw cause instanceof ManifestError ? cause : new ManifestError(`${key} is not JSON`, { cause })
  }
}
