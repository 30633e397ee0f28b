import { join } from 'node:path'
import type { TranscodeInput } from '../../crds/transcode-job.ts'
import { type ImageManifest, Manifest } from '../../lib/contract/manifest.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { decode } from '../images/decode.ts'
import { derive, describeJpeg } from '../images/derive.ts'
import { parseExif } from '../images/exif.ts'
import { factsOf, orientationOf } from '../images/facts.ts'
import { effectiveOrientation, mayShowOriginal } from '../images/policy.ts'
import { IMAGE_LIMITS, readHeader } from '../images/read-header.ts'
import { uploadImages } from '../images/upload-images.ts'
import { download } from '../runtime/download.ts'
import { writeManifest } from '../runtime/manifest.ts'
import type { InputProgress } from '../runtime/progress.ts'

export interface ImageTools {
  store: ObjectStore
  /** An empty folder for this input. The caller removes it. */
  scratch: string
  signal: AbortSignal
  log: Log
  progress: InputProgress
}

/**
 * Makes the derivatives of one uploaded image and commits them with manifest.json, written last. Nothing is uploaded
 * before everything is made, so a bad input leaves no files behind.
 */
export async function convertImage(tools: ImageTools, input: TranscodeInput): Promise<ImageManifest> {
  const { store, scratch: folder, signal, log, progress } = tools
  const source = join(folder, 'source')
  progress.at('Downloading', 0)
  await download(store, input.sourceKey, source, { maxBytes: IMAGE_LIMITS.bytes, signal })
  progress.at('Probing', 0)
  const startedAt = performance.now()
  const header = await readHeader(source)
  const exif = parseExif(header.exif)
  const written = orientationOf(exif)
  const orientation = effectiveOrientation(header, written)
  const needsJpeg = !mayShowOriginal(header, { ...exif, orientation: written })

  progress.at('Encoding', 0)
  const picture = await decode({ folder, header, orientation, needsJpeg, signal, log })
  const jpeg = needsJpeg ? await describeJpeg(folder) : null
  const derived = await derive(join(folder, picture), folder)
  const wallSeconds = (performance.now() - startedAt) / 1000
  failpoint('job.encoded')

  progress.at('Publishing', 0)
  const images = { ...derived, jpeg }
  await uploadImages({ store, prefix: input.outputPrefix, folder, signal }, images)
  failpoint('job.uploaded')
  signal.throwIfAborted()
  const isSideways = orientation > 4
  const manifest: ImageManifest = {
    version: 1,
    id: input.id,
    type: 'image',
    createdAt: new Date().toISOString(),
    source: {
      format: header.format,
      width: isSideways ? header.height : header.width,
      height: isSideways ? header.width : header.height,
      orientation: written,
      isAnimated: header.isAnimated,
      ...factsOf(exif),
    },
    images,
    encode: { wallSeconds },
  }
  await writeManifest(store, input.outputPrefix, Manifest, manifest)
  failpoint('job.manifest-written')
  return manifest
}
