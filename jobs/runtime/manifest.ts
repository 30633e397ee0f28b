import type * as z from 'zod'
import { MAX_MANIFEST_BYTES } from '../../lib/contract/manifest.ts'
import { manifestKey } from '../../lib/contract/object-keys.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { ObjectTooLarge, readText } from '../../lib/runtime/object-store/read-text.ts'

/** The manifest that an earlier attempt wrote below a prefix, if any. An unreadable manifest counts as none. */
export async function findManifest<S extends z.ZodType>(
  store: ObjectStore,
  prefix: string,
  schema: S,
  signal: AbortSignal,
): Promise<z.output<S> | undefined> {
  const key = manifestKey(prefix)
  if (!(await store.head(key))) return undefined
  try {
    return schema.safeParse(JSON.parse(await readText(store, key, { maxBytes: MAX_MANIFEST_BYTES, signal }))).data
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof ObjectTooLarge) return undefined
    throw error
  }
}

/** The last write of a conversion: its existence is the commit. Throws when the manifest does not fit its schema. */
export async function writeManifest<S extends z.ZodType>(
  store: ObjectStore,
  prefix: string,
  schema: S,
  manifest: z.input<S>,
): Promise<void> {
  const text = JSON.stringify(schema.parse(manifest))
  await store.put(manifestKey(prefix), text, { contentType: 'application/json', size: Buffer.byteLength(text) })
}
