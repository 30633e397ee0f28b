import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { IMAGE_FILES, WEBP_LONG_SIDE } from '../../lib/contract/manifest.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { badInput } from '../runtime/failure.ts'
import { isTiff } from './exif.ts'
import type { ImageHeader } from './header.ts'
import { fitsProfile, isSrgbProfile } from './icc.ts'
import { decodeWithLibheif } from './libheif.ts'
import { DecoderMissing, ProfileUnusable, runVips } from './vips.ts'

export interface Decoding {
  /** Holds the upload as `source`; receives all other files. */
  folder: string
  header: ImageHeader
  /** As in EXIF, 1 to 8: the turn that remains to be done. */
  orientation: number
  /** Make a JPEG in full size. */
  needsJpeg: boolean
  signal: AbortSignal
  log: Log
}

/** A machine without the decoder says so once in a job, and not for each of 64 inputs. */
let hasSaidFallback = false

/** The longest side that the encoder of JPEG takes. Only a PNG may have a longer one, and is reduced. */
const MAX_JPEG_SIDE = 65_500
const JPEG = `${IMAGE_FILES.jpeg}[Q=82,strip,background=255]`
/** Up to here vips may turn a picture in memory; larger ones are turned through a file. */
const TURN_IN_MEMORY_BYTES = 128 * 1024 ** 2

/**
 * Decodes the upload once, in a process of its own. Writes `image.jpg` where it is needed, and returns the name of the
 * file from which smaller pictures are made: upright and sRGB.
 */
export async function decode(decoding: Decoding): Promise<string> {
  try {
    return await decodeFrom(decoding, { name: 'source', isUpload: true })
  } catch (error) {
    if (!(error instanceof DecoderMissing)) throw error
    if (decoding.header.format !== 'heif') {
      throw badInput('UnsupportedFormat', 'The image is of a kind that cannot be decoded', { cause: error })
    }
    if (!hasSaidFallback) decoding.log.warn({ reason: error.message }, 'vips cannot decode HEIC here; libheif-js does')
    hasSaidFallback = true
    await decodeWithLibheif({ ...decoding, from: 'source', to: 'pixels.ppm' })
    return decodeFrom(decoding, { name: 'pixels.ppm', isUpload: false })
  }
}

interface From {
  name: string
  isUpload: boolean
}

async function decodeFrom(decoding: Decoding, from: From): Promise<string> {
  const { header, orientation, needsJpeg } = decoding
  if (!needsJpeg) {
    const small = await thumbnail(decoding, from, 'small.v', WEBP_LONG_SIDE, { turns: false })
    return applySteps(decoding, small, await stepsOf(decoding))
  }
  const turns = orientation !== 1
  if (!header.mayBeTransparent && (!turns || canTurn(header))) {
    await thumbnail(decoding, from, JPEG, MAX_JPEG_SIDE, { turns })
    return IMAGE_FILES.jpeg
  }
  return applyThroughFiles(decoding, await thumbnail(decoding, from, 'pixels.v', MAX_JPEG_SIDE, { turns: false }))
}

/**
 * Whether vips itself can turn the whole picture, as it reads the orientation: not of a HEIF, and not of EXIF that begins
 * with a second header.
 */
const canTurn = ({ format, width, height, exif }: ImageHeader) =>
  format === 'jpeg' && isTiff(exif) && width * height * 3 <= TURN_IN_MEMORY_BYTES

/** Reads row by row where the format allows it, converts the colours, and shrinks. */
async function thumbnail(
  { folder, header, signal }: Decoding,
  from: From,
  to: string,
  side: number,
  { turns }: { turns: boolean },
): Promise<string> {
  const size = [String(side), '--height', String(side), '--size', 'down']
  const turn = turns ? [] : ['--no-rotate']
  const args = ['thumbnail', from.name, to, ...size, ...turn, '--fail-on', 'error']
  const run = (more: readonly string[]) =>
    runVips({ args: [...args, ...more], folder, isUpload: from.isUpload, signal })
  await run(await colours(folder, header, from)).catch((error: unknown) => {
    if (!(error instanceof ProfileUnusable)) throw error
    return run([])
  })
  return to
}

/** Converts colours only where there is something to convert, because it costs as much as decoding. */
async function colours(folder: string, header: ImageHeader, { isUpload }: From): Promise<string[]> {
  if (isDeclaredAnew(header)) return []
  if (header.declaredProfile) return toSrgb(await written(folder, header.declaredProfile))
  // vips takes the profile in the file, and the named one where the file has none that can be used.
  if (header.space === 'CMYK') return toSrgb('cmyk')
  const profile = header.profile && fitsProfile(header.profile, header.space) ? header.profile : null
  if (profile === null || isSrgbProfile(profile)) return []
  // The other decoder's pixels no longer carry the profile.
  return isUpload ? ['--export-profile', 'srgb'] : toSrgb(await written(folder, profile))
}

async function written(folder: string, profile: Buffer): Promise<string> {
  await writeFile(join(folder, 'profile.icc'), profile)
  return 'profile.icc'
}

const toSrgb = (profile: string) => ['--import-profile', profile, '--export-profile', 'srgb']

/** vips would take the profile of the file first, so such a picture is converted in a step of its own. Only a PNG may have both. */
const isDeclaredAnew = ({ declaredProfile, profile }: ImageHeader) => declaredProfile !== null && profile !== null

type Step = readonly [operation: string, how: string, ...options: string[]]

/** What remains to be done after decoding. */
async function stepsOf({ folder, header, orientation }: Decoding): Promise<Step[]> {
  const turns = TURNS[orientation] ?? []
  if (!header.declaredProfile || !isDeclaredAnew(header)) return [...turns]
  return [['icc_transform', 'srgb', '--input-profile', await written(folder, header.declaredProfile)], ...turns]
}

/** A turn and, for mirrored pictures, a flip after it. */
const TURNS: Readonly<Record<number, readonly Step[]>> = {
  2: [['flip', 'horizontal']],
  3: [['rot', 'd180']],
  4: [['flip', 'vertical']],
  5: [
    ['rot', 'd90'],
    ['flip', 'horizontal'],
  ],
  6: [['rot', 'd90']],
  7: [
    ['rot', 'd90'],
    ['flip', 'vertical'],
  ],
  8: [['rot', 'd270']],
}

/** Pictures in files are mapped and not held, so that the largest are turned in little memory. */
async function applyThroughFiles(decoding: Decoding, pixels: string): Promise<string> {
  const { folder, header, signal } = decoding
  const steps = await stepsOf(decoding)
  const last = header.mayBeTransparent ? undefined : steps.pop()
  const from = await applySteps(decoding, pixels, steps)
  const args = last ? argsOf(last, from, JPEG) : ['copy', from, JPEG]
  await runVips({ args, folder, isUpload: false, signal })
  return header.mayBeTransparent ? from : IMAGE_FILES.jpeg
}

async function applySteps({ folder, signal }: Decoding, pixels: string, steps: readonly Step[]): Promise<string> {
  let from = pixels
  for (const [i, step] of steps.entries()) {
    const to = `step-${i}.v`
    await runVips({ args: argsOf(step, from, to), folder, isUpload: false, signal })
    await rm(join(folder, from))
    from = to
  }
  return from
}

const argsOf = ([operation, ...how]: Step, from: string, to: string) => [operation, from, to, ...how]
