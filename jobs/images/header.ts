import { badInput } from '../runtime/failure.ts'

/** As ICC profiles name the kinds of pixels. */
export type ColorSpace = 'RGB ' | 'GRAY' | 'CMYK'
export type ImageFormat = 'jpeg' | 'png' | 'webp' | 'gif' | 'avif' | 'heif'

/** What the first bytes and the structure of a file say, before any decoder sees it. */
export interface ImageHeader {
  format: ImageFormat
  /** As stored; for HEIF and AVIF after the rotation by `irot`. */
  width: number
  height: number
  /** The decoder turns the image as the container says (`irot`, `imir`), so that EXIF must not turn it again. */
  isTurnedByContainer: boolean
  isAnimated: boolean
  /** Bytes that a decoder needs at once: little where it reads row by row, the whole picture where it cannot. */
  memoryBytes: number
  /** A TIFF block, without its `Exif\0\0`. A file with two of them is not plain. */
  exif: Buffer | null
  xmp: readonly Buffer[]
  /** An ICC profile. */
  profile: Buffer | null
  /** Made of what the container declares of wide colours or HDR without an ICC profile. */
  declaredProfile: Buffer | null
  /** Of the pixels that the decoder makes. */
  space: ColorSpace
  mayBeTransparent: boolean
  /**
   * Everything in the file is the picture or is known to say nothing about a place. False for text, IPTC, unknown
   * segments, bytes after the end, and a file too long to look through.
   */
  isPlain: boolean
}

/** The beginning of a file, or all of it, and its length. */
export interface Bytes {
  head: Buffer
  size: number
}

export const blank = {
  isTurnedByContainer: false,
  isAnimated: false,
  memoryBytes: 0,
  exif: null,
  xmp: [],
  profile: null,
  declaredProfile: null,
  space: 'RGB ',
  mayBeTransparent: false,
  isPlain: true,
} as const satisfies Partial<ImageHeader>

export const truncated = () => badInput('Truncated', 'The image is cut off')
export const corrupt = (message = 'The image cannot be read') => badInput('CorruptInput', message)
export const tooLarge = (message: string) => badInput('LimitExceeded', message)
