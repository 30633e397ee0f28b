import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '../../lib/runtime/log.ts'
import { decode } from '../images/decode.ts'
import { parseExif } from '../images/exif.ts'
import { orientationOf } from '../images/facts.ts'
import { effectiveOrientation } from '../images/policy.ts'
import { readHeader } from '../images/read-header.ts'
import { type Sharp, sharp } from '../images/sharp.ts'
import { type Fill, fillsCanvas, fitInside, type Size } from './fit.ts'

/** A decoded photo: upright, sRGB, at most 2048 pixels a side, in the format of libvips. */
export interface Still extends Size {
  path: string
}

/** Decodes the image in a source's folder and keeps it at `path`. Throws a PermanentError when it is broken. */
export async function decodeStill(
  folder: string,
  path: string,
  { signal, log }: { signal: AbortSignal; log: Log },
): Promise<Still> {
  const header = await readHeader(join(folder, 'source'))
  const orientation = effectiveOrientation(header, orientationOf(parseExif(header.exif)))
  const picture = await decode({ folder, header, orientation, needsJpeg: false, signal, log })
  await rename(join(folder, picture), path)
  // What the highlight can use depends on the original's size, not on that of the reduced copy.
  const [width, height] = orientation > 4 ? [header.height, header.width] : [header.width, header.height]
  return { path, width, height }
}

/** Strong enough that nothing in the background draws the eye. */
const BLUR_SIGMA = 6
const BLUR_SCALE = 1 / 16
const DIM = 0.7

/** Draws the photo on the canvas and writes the canvas as raw RGB. */
export async function drawStill({ path }: Still, canvas: Size, fill: Fill, to: string): Promise<void> {
  // The decoder made it sRGB. A profile that did not fit the pixels is still there.
  const open = () => sharp(path, { sequentialRead: false, ignoreIcc: true })
  const flat = () => open().flatten({ background: '#000000' }).toColourspace('srgb')
  const { width, height } = await sharp(path).metadata()
  const exact = { width: canvas.width, height: canvas.height, fit: 'fill' as const }
  const raw = (picture: Sharp) => picture.removeAlpha().raw({ depth: 'uchar' }).toBuffer()
  if (fillsCanvas({ width, height }, canvas)) {
    await writeFile(to, await raw(flat().resize(exact)))
    return
  }
  const box = fitInside({ width, height }, canvas)
  const picture = { width: box.width, height: box.height, channels: 3 as const }
  const front = await raw(flat().resize({ ...picture, fit: 'fill' }))
  const back =
    fill === 'black'
      ? sharp({ create: { width: canvas.width, height: canvas.height, channels: 3, background: '#000000' } })
      : sharp(await blurred(flat(), canvas), {
          raw: { ...smallOf(canvas), channels: 3 },
        }).resize(exact)
  await writeFile(to, await raw(back.composite([{ input: front, raw: picture, left: box.x, top: box.y }])))
}

const smallOf = ({ width, height }: Size) => ({
  width: Math.max(8, Math.round(width * BLUR_SCALE)),
  height: Math.max(8, Math.round(height * BLUR_SCALE)),
})

const blurred = (picture: Sharp, canvas: Size): Promise<Buffer> =>
  picture
    .resize({ ...smallOf(canvas), fit: 'cover' })
    .blur(BLUR_SIGMA)
    .linear(DIM, 0)
    .removeAlpha()
    .raw({ depth: 'uchar' })
    .toBuffer()
