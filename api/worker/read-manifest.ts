import { formatId, type Uuid } from '../../lib/contract/ids.ts'
import { Manifest } from '../../lib/contract/manifest.ts'
import { manifestKey } from '../../lib/contract/object-keys.ts'
import { type ObjectStore, StoreError } from '../../lib/runtime/object-store/object-store.ts'
import { isKeepable } from '../http/text.ts'

const MAX_BYTES = 256 * 1024
/** The manifest comes from a pod that has read an untrusted file: a name in a link must not leave the prefix. */
const FILE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*\.(m3u8|jpg|webp)$/

/** The manifest is missing or unusable. A retry helps only if a job writes it in the meantime. */
export class ManifestError extends Error {
  override readonly name = 'ManifestError'
}

/** Reads and checks the manifest of a conversion. Throws ManifestError; any other error is an outage of the store. */
export async function readManifest(store: ObjectStore, mediaId: Uuid, prefix: string): Promise<Manifest> {
  const key = manifestKey(prefix)
  const parsed = Manifest.safeParse(parseJson(await readText(store, key), key))
  if (!parsed.success) throw new ManifestError(`${key} does not fit its schema: ${parsed.error.message}`)
  const manifest = parsed.data
  if (manifest.id !== formatId('media', mediaId)) throw new ManifestError(`${key} belongs to another media item`)
  if (!filesOf(manifest).every((name) => FILE_NAME.test(name)))
    throw new ManifestError(`${key} names a file outside its prefix`)
  return manifest
}

const filesOf = (manifest: Manifest): string[] => [
  ...(manifest.type === 'video' ? [manifest.hls.master] : []),
  ...(manifest.type === 'image' && manifest.images.jpeg ? [manifest.images.jpeg.file] : []),
  ...(manifest.images ? [manifest.images.webp.file, manifest.images.thumb.file] : []),
]

async function readText(store: ObjectStore, key: string): Promise<string> {
  try {
    const { info, body } = await store.get(key)
    if (info.size > MAX_BYTES) {
      body.destroy()
      throw new ManifestError(`${key} has ${info.size} bytes`)
    }
    const chunks: Buffer[] = []
    for await (const chunk of body) chunks.push(chunk as Buffer)
    return Buffer.concat(chunks).toString('utf8')
  } catch (error) {
    if (error instanceof StoreError && error.code === 'NotFound') throw new ManifestError(`there is no ${key}`)
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
