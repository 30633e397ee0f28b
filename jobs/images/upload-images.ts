import { join } from 'node:path'
import { EXIT } from '../../lib/contract/job-result.ts'
import type { ManifestImage } from '../../lib/contract/manifest.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { TransientError } from '../runtime/failure.ts'

interface Target {
  store: ObjectStore
  prefix: string
  folder: string
  signal: AbortSignal
}

const TYPES = { jpeg: 'image/jpeg', webp: 'image/webp', thumb: 'image/webp' } as const

/** Uploads the derivatives of an image, or of a frame of a video. Repeating it overwrites them. */
export async function uploadImages(
  { store, prefix, folder, signal }: Target,
  images: { jpeg?: ManifestImage | null; webp: ManifestImage; thumb: ManifestImage },
): Promise<void> {
  for (const [kind, contentType] of Object.entries(TYPES)) {
    const image = images[kind as keyof typeof TYPES]
    if (!image) continue
    const info = await store.upload(join(folder, image.file), prefix + image.file, { contentType, signal })
    failpoint('job.image-uploaded')
    if (info.size === image.bytes) continue
    const message = `${image.file} arrived with ${info.size} of ${image.bytes} bytes`
    throw new TransientError(EXIT.transient, 'StoreUnavailable', message)
  }
}
