import { Manifest } from '../../lib/contract/manifest.ts'
import { manifestKey } from '../../lib/contract/object-keys.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'

/** The manifest that an earlier attempt wrote below a prefix, if any. An unreadable manifest counts as none. */
export async function findManifest(
  store: ObjectStore,
  prefix: string,
  signal: AbortSignal,
): Promise<Manifest | undefined> {
  const key = manifestKey(prefix)
  if (!(await store.head(key))) return undefined
  const { body } = await store.get(key, undefined, signal)
  let text = ''
  for await (const chunk of body) text += String(chunk)
  try {
    return Manifest.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

/** The last write of a conversion: its existence is the commit. */
export async function writeManifest(store: ObjectStore, prefix: string, manifest: Manifest): Promise<void> {
  const text = JSON.stringify(Manifest.parse(manifest))
  await store.put(manifestKey(prefix), text, { contentType: 'application/json', size: Buffer.byteLength(text) })
}
