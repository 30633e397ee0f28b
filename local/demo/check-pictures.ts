import sharp from 'sharp'
import { checkStream } from './check-stream.ts'
import type { Media } from './client.ts'

/** The long sides of the derivatives, in docs/media-limits.md. */
const LONG_SIDES = { image_webp_url: 2048, image_thumb_url: 512 } as const

/**
 * Fetches and decodes every derivative of a photo. They must be of their size, and may say nothing of the camera. Throws
 * a sentence about the first error.
 */
export async function checkPhoto(media: Media): Promise<void> {
  const { original_filename: name, variants } = media
  if (!media.placeholder) throw new Error(`${name} has no placeholder`)
  for (const [variant, limit] of Object.entries(LONG_SIDES) as [keyof typeof LONG_SIDES, number][]) {
    const { width, height, format, exif } = await pictureAt(variants[variant], `${variant} of ${name}`)
    const is = `The ${variant} of ${name} is a ${format} of ${width} × ${height}`
    if (format !== 'webp' || Math.max(width, height) > limit) throw new Error(`${is}, not a WebP of at most ${limit}`)
    if (exif) throw new Error(`The ${variant} of ${name} contains EXIF`)
  }
  await pictureAt(variants.image_url, `image_url of ${name}`)
}

async function pictureAt(url: string | null, what: string) {
  if (!url) throw new Error(`There is no ${what}`)
  const response = await fetch(url)
  if (!response.ok) throw new Error(`The ${what} answered ${response.status}`)
  const bytes = Buffer.from(await response.arrayBuffer())
  // To the last pixel: a header is not yet a picture.
  await sharp(bytes, { failOn: 'warning' }).raw().toBuffer()
  return sharp(bytes).metadata()
}

/** A Live Photo is one media item of the list: its photo, with a stream of its motion. */
export async function checkLivePhoto(
  ids: { image: string; video: string | undefined },
  listed: readonly Media[],
  seconds: number,
): Promise<void> {
  if (listed.some((m) => m.media_id === ids.video)) throw new Error('The video of the Live Photo is an item of its own')
  const item = listed.find((m) => m.media_id === ids.image)
  if (!item) throw new Error('The Live Photo is not in the list')
  const url = item.variants.live_photo_video_url
  if (!url) throw new Error('The Live Photo has no live_photo_video_url')
  await checkPhoto(item)
  await checkStream(url, seconds)
}
