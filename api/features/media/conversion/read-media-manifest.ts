import { formatId, type Uuid } from '../../../../lib/contract/ids.ts'
import { Manifest } from '../../../../lib/contract/manifest.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import { readManifest } from '../../../worker/read-manifest.ts'

/** The manifest of a conversion. Fails as `readManifest`. */
export const readMediaManifest = (store: ObjectStore, mediaId: Uuid, prefix: string): Promise<Manifest> =>
  readManifest(store, prefix, { schema: Manifest, id: formatId('media', mediaId), filesOf })

const filesOf = (manifest: Manifest): string[] => [
  ...(manifest.type === 'video' ? [manifest.hls.master] : []),
  ...(manifest.type === 'image' && manifest.images.jpeg ? [manifest.images.jpeg.file] : []),
  ...(manifest.images ? [manifest.images.webp.file, manifest.images.thumb.file] : []),
]
