import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { rgbaToThumbHash } from 'thumbhash'
import {
  IMAGE_FILES,
  type ImageManifest,
  type ManifestImage,
  THUMB_LONG_SIDE,
  WEBP_LONG_SIDE,
} from '../../lib/contract/manifest.ts'
import { IMAGE_LIMITS } from './read-header.ts'
import { type Sharp, sharp } from './sharp.ts'

/** Higher efforts cost several times as much and save a few percent of the bytes. */
const EFFORT = 2
const PLACEHOLDER_SIDE = 100
/** Of the picture that is hashed: a thumbhash of fewer pixels shows waves instead of colours. */
const LEAST_PLACEHOLDER_SIDE = 8

interface Pixels {
  data: Buffer
  width: number
  height: number
  channels: 3 | 4
}

type Derived = Pick<ImageManifest['images'], 'webp' | 'thumb' | 'placeholder'>

/**
 * Makes both WebPs and the placeholder from an upright sRGB picture, which may still hold a profile that does not fit it.
 * None of them carries any metadata.
 */
export async function derive(picture: string | Pixels, folder: string): Promise<Derived> {
  const { data, info } = await within(open(picture), WEBP_LONG_SIDE)
    .toColourspace('srgb')
    .raw({ depth: 'uchar' })
    .toBuffer({ resolveWithObject: true })
  const channels = info.channels as 3 | 4
  const small = () => sharp(data, { raw: { width: info.width, height: info.height, channels } })
  const webp = await save(small().webp({ quality: 80, effort: EFFORT }), folder, IMAGE_FILES.webp)
  const reduced = within(small(), THUMB_LONG_SIDE).webp({ quality: 75, effort: EFFORT })
  const thumb = await save(reduced, folder, IMAGE_FILES.thumb)
  const scale = Math.min(1, PLACEHOLDER_SIDE / Math.max(info.width, info.height))
  const side = (pixels: number) => Math.max(LEAST_PLACEHOLDER_SIDE, Math.round(pixels * scale))
  const tiny = await small()
    .resize({ width: side(info.width), height: side(info.height), fit: 'fill' })
    .ensureAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true })
  const hash = rgbaToThumbHash(tiny.info.width, tiny.info.height, tiny.data)
  return { webp, thumb, placeholder: Buffer.from(hash).toString('base64') }
}

const open = (picture: string | Pixels): Sharp =>
  typeof picture === 'string'
    ? sharp(picture, { limitInputPixels: IMAGE_LIMITS.pixels, sequentialRead: true, ignoreIcc: true })
    : sharp(picture.data, { raw: picture })

const within = (picture: Sharp, side: number) =>
  picture.resize({ width: side, height: side, fit: 'inside', withoutEnlargement: true })

async function save(picture: Sharp, folder: string, file: string): Promise<ManifestImage> {
  const { width, height, size } = await picture.toFile(join(folder, file))
  return { file, width, height, bytes: size }
}

/** Describes the JPEG that the decoder made. */
export async function describeJpeg(folder: string): Promise<ManifestImage> {
  const path = join(folder, IMAGE_FILES.jpeg)
  const [{ width, height }, { size }] = await Promise.all([sharp(path).metadata(), stat(path)])
  return { file: IMAGE_FILES.jpeg, width, height, bytes: size }
}
