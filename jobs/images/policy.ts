import type { ImageHeader } from './header.ts'
import { isSrgbProfile } from './icc.ts'

/** Fields of XMP that name a place, in any of the common vocabularies. */
const PLACE = /GPS|Location|City|Country|State|Sublocation|ProvinceState|geo:|LatLong/i

/**
 * The tags of EXIF that say nothing about a place or a person. Maker notes, comments, titles and unknown tags may, and a
 * GPS directory does.
 */
const SILENT_TAGS = new Set(
  `ImageWidth ImageLength BitsPerSample Compression PhotometricInterpretation Make Model Orientation SamplesPerPixel
  XResolution YResolution PlanarConfiguration ResolutionUnit Software DateTime YCbCrCoefficients YCbCrSubSampling
  YCbCrPositioning ReferenceBlackWhite WhitePoint PrimaryChromaticities Rating RatingPercent ExifTag ExposureTime FNumber
  ExposureProgram ISOSpeedRatings SensitivityType StandardOutputSensitivity RecommendedExposureIndex ISOSpeed ExifVersion
  DateTimeOriginal DateTimeDigitized OffsetTime OffsetTimeOriginal OffsetTimeDigitized ComponentsConfiguration
  CompressedBitsPerPixel ShutterSpeedValue ApertureValue BrightnessValue ExposureBiasValue MaxApertureValue
  SubjectDistance MeteringMode LightSource Flash FocalLength SubSecTime SubSecTimeOriginal SubSecTimeDigitized
  FlashpixVersion ColorSpace PixelXDimension PixelYDimension InteroperabilityTag FlashEnergy FocalPlaneXResolution
  FocalPlaneYResolution FocalPlaneResolutionUnit ExposureIndex SensingMethod FileSource SceneType CustomRendered
  ExposureMode WhiteBalance DigitalZoomRatio FocalLengthIn35mmFilm SceneCaptureType GainControl Contrast Saturation
  Sharpness SubjectDistanceRange LensSpecification LensMake LensModel CompositeImage Gamma InteroperabilityIndex
  InteroperabilityVersion RelatedImageWidth RelatedImageLength JPEGInterchangeFormat
  JPEGInterchangeFormatLength`.split(/\s+/),
)

/** Larger ones hide behind a reference to further segments, which are not looked at. */
const MAX_XMP = 65_000

/**
 * Whether clients may be shown the untouched original: a format of browsers, upright, in colours that they show right,
 * and without a place. What is not understood is not shown. Pure.
 */
export function mayShowOriginal(
  header: ImageHeader,
  exif: { orientation: number; isReadable: boolean; names: readonly string[] },
): boolean {
  const isUpright = exif.orientation === 1 && !header.isTurnedByContainer
  const isSrgb = !header.declaredProfile && header.space !== 'CMYK' && isSrgbProfile(header.profile)
  const namesNothing = exif.isReadable && exif.names.every((name) => SILENT_TAGS.has(name))
  const isSilent = namesNothing && header.isPlain && header.xmp.every(namesNoPlace)
  return header.format !== 'heif' && isUpright && isSrgb && isSilent
}

const namesNoPlace = (xmp: Buffer) =>
  xmp.length <= MAX_XMP && !PLACE.test(xmp.toString('latin1')) && !xmp.includes('HasExtendedXMP')

/**
 * The turn that makes the picture upright. HEIF and AVIF say it by `irot` and `imir`, which the decoder obeys; EXIF
 * then repeats it and must not turn the picture again. A HEIC without either is turned by EXIF. AVIF is not: no browser
 * turns it. Pure.
 */
export function effectiveOrientation({ format, isTurnedByContainer }: ImageHeader, exif: number): number {
  return isTurnedByContainer || format === 'avif' || format === 'gif' ? 1 : exif
}
