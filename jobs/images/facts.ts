import type { ImageManifest } from '../../lib/contract/manifest.ts'
import { isCaptureTime, isLocalCaptureTime } from '../runtime/capture-time.ts'
import type { Exif } from './exif.ts'

type Facts = Pick<ImageManifest['source'], 'capturedAt' | 'camera' | 'location' | 'exif'>

/** What an image's EXIF says of the place and time it was taken, and the tags that everyone may see. Pure. */
export const factsOf = (exif: Exif): Facts => ({
  capturedAt: capturedAtOf(exif),
  camera: { make: textOf(exif.image['Make']), model: textOf(exif.image['Model']) },
  location: locationOf(exif),
  exif: shownTags(exif),
})

/** As in EXIF, 1 to 8; 1 when the file does not say. */
export function orientationOf({ image }: Exif): number {
  const value = image['Orientation']
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 8 ? Number(value) : 1
}

/** A time on the camera's clock, and the tags of its offset and of the rest of its second. */
const TIMES = [
  ['DateTimeOriginal', 'OffsetTimeOriginal', 'SubSecTimeOriginal'],
  ['DateTimeDigitized', 'OffsetTimeDigitized', 'SubSecTimeDigitized'],
  ['DateTime', 'OffsetTime', 'SubSecTime'],
] as const

/**
 * The time on the camera's clock with its offset from UTC. The offset is the one that the camera wrote, else the
 * difference to the time of the GPS, which is in UTC, else that of the last change of the file (`OffsetTime`), which a
 * program may have made in another zone. That of a file that was never changed is the camera's, and counts more than the
 * GPS, whose time may be that of an old fix. Without any the zone is unknown, and the time counts as UTC.
 */
function capturedAtOf(exif: Exif): string | null {
  const { photo, image } = exif
  const gps = gpsTimeOf(exif)
  const offsetBy = (tag: string) => offsetText(textOf(photo[tag]))
  const written = offsetBy('OffsetTimeOriginal') ?? offsetBy('OffsetTimeDigitized')
  for (const [name, own, rest] of TIMES) {
    const local = localTime(textOf((name === 'DateTime' ? image : photo)[name]))
    if (!local || !isLocalCaptureTime(local)) continue
    const ofChange = offsetBy('OffsetTime')
    const isUnchanged = localTime(textOf(image['DateTime']))?.getTime() === local.getTime()
    const other = isUnchanged ? (ofChange ?? offsetByGps(local, gps)) : (offsetByGps(local, gps) ?? ofChange)
    const offset = offsetBy(own) ?? written ?? other ?? 'Z'
    return isoOf(new Date(local.getTime() + millisecondsOf(textOf(photo[rest]))), offset)
  }
  const at = gps === null ? null : new Date(gps)
  return at && isCaptureTime(at) ? isoOf(at, 'Z') : null
}

const isoOf = (local: Date, offset: string): string => local.toISOString().replace(/(\.000)?Z$/, offset)

/** As cameras and programs write it: with blanks for zeros, dashes, or a `T`. */
const TIME = /^(\d{4})[:-]([ \d]{2})[:-]([ \d]{2})(?:[ T]([ \d]{1,2}):([ \d]{2}):([ \d]{0,2})(?:\.\d+)?)?$/

/** A month or day of zero is one that is not known. Undefined for what no calendar or clock shows. */
function localTime(text: string | null): Date | undefined {
  const [, year, ...parts] = TIME.exec(text ?? '') ?? []
  if (year === undefined) return undefined
  const [month, day, hours, minutes, seconds] = parts.map((part, i) => {
    const number = Number(part ?? 0) || (i < 2 ? 1 : 0)
    return String(number).padStart(2, '0')
  })
  const iso = `${year}-${month}-${day}T${hours}:${minutes}:${seconds}.000Z`
  const local = new Date(iso)
  // JavaScript takes 30 February for a day in March.
  return Number.isNaN(local.getTime()) || local.toISOString() !== iso ? undefined : local
}

/** Of the digits behind the point of the second. */
const millisecondsOf = (text: string | null): number =>
  /^\d+$/.test(text ?? '') ? Number(text?.slice(0, 3).padEnd(3, '0')) : 0

function offsetText(text: string | null): string | undefined {
  const [, sign, hours, minutes] = /^([+-])(\d\d):(\d\d)$/.exec(text ?? '') ?? []
  if (text === 'Z') return text
  if (sign === undefined || Number(hours) > 14 || Number(minutes) > 59) return undefined
  return `${sign}${hours}:${minutes}`
}

/** Zones are multiples of 15 minutes, and no clock is more than 14 hours from UTC. */
function offsetByGps(local: Date, gps: number | null): string | undefined {
  if (gps === null) return undefined
  const minutes = Math.round((local.getTime() - gps) / 900_000) * 15
  if (Math.abs(minutes) > 14 * 60) return undefined
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60]
  return `${minutes < 0 ? '-' : '+'}${String(hours).padStart(2, '0')}:${String(rest).padStart(2, '0')}`
}

/** GPS counts from 6 January 1980. Receivers without a position fix write that day, or zeros, which become a day in 1899. */
const GPS_EPOCH_ENDS = Date.UTC(1980, 0, 7)

function gpsTimeOf({ gps }: Exif): number | null {
  const [, year, month, day] = /^(\d{4}):(\d\d):(\d\d)$/.exec(textOf(gps['GPSDateStamp']) ?? '') ?? []
  const time = numbersOf(gps['GPSTimeStamp'])
  const [hours, minutes, seconds] = time
  if (year === undefined || hours === undefined || minutes === undefined || seconds === undefined) return null
  const at =
    Date.UTC(Number(year), Number(month) - 1, Number(day)) + (hours * 3600 + minutes * 60 + Math.floor(seconds)) * 1000
  return at >= GPS_EPOCH_ENDS ? at : null
}

/** Phones without a position fix write 0,0, which counts as none. */
function locationOf({ gps }: Exif): Facts['location'] {
  const latitude = degrees(gps['GPSLatitude'], gps['GPSLatitudeRef'], 'S')
  const longitude = degrees(gps['GPSLongitude'], gps['GPSLongitudeRef'], 'W')
  if (latitude === null || longitude === null || Math.abs(latitude) > 90 || Math.abs(longitude) > 180) return null
  return latitude === 0 && longitude === 0 ? null : { latitude, longitude }
}

function degrees(value: unknown, reference: unknown, negative: string): number | null {
  // Where the minutes have a fraction, some cameras write the seconds as 0/0.
  const parts = Array.isArray(value) ? value.map((n, i) => (i > 0 && Number.isNaN(n) ? 0 : n)) : value
  const [whole, minutes = 0, seconds = 0] = numbersOf(parts)
  if (whole === undefined) return null
  const sum = Number((whole + minutes / 60 + seconds / 3600).toFixed(7))
  if (!Number.isFinite(sum)) return null
  return textOf(reference)?.toUpperCase() === negative && sum !== 0 ? -sum : sum
}

const numbersOf = (value: unknown): number[] =>
  Array.isArray(value) && value.every((n) => typeof n === 'number' && Number.isFinite(n)) ? value : []

/** Text without control characters and halves of characters, or null. Old cameras write Latin-1, new ones UTF-8. */
function textOf(value: unknown): string | null {
  const text = Buffer.isBuffer(value) ? decode(value.subarray(0, 1024)) : value
  if (typeof text !== 'string') return null
  return (
    text
      .replace(/\p{Cc}|\p{Cf}/gu, '')
      .trim()
      .slice(0, 128)
      // The cut may leave half of a character, which Postgres refuses.
      .replace(/\p{Cs}/gu, '') || null
  )
}

function decode(bytes: Buffer): string {
  const text = bytes.toString('utf8')
  return text.includes('\ufffd') ? bytes.toString('latin1') : text
}

type Show = (value: number) => string

const round = (n: number) => String(Number(n.toFixed(2)))
const exposure: Show = (s) => (s > 0 && s < 0.5 ? `1/${Math.round(1 / s)}` : round(s))

/** The tags that everyone who sees the image may see. Never a place, a serial number, an owner or a text. */
const SHOWN: Readonly<Record<string, Show>> = {
  ExposureTime: exposure,
  FNumber: (n) => `f/${round(n)}`,
  ISOSpeedRatings: (n) => String(n),
  FocalLength: (n) => `${round(n)} mm`,
  FocalLengthIn35mmFilm: (n) => `${round(n)} mm`,
  ExposureBiasValue: (n) => `${round(n)} EV`,
  Flash: (n) => (n % 2 === 1 ? 'fired' : 'off'),
}

function shownTags({ photo }: Exif): Record<string, string> {
  const shown: Record<string, string> = {}
  for (const [tag, show] of Object.entries(SHOWN)) {
    const value = Array.isArray(photo[tag]) ? photo[tag][0] : photo[tag]
    if (typeof value === 'number' && Number.isFinite(value) && value >= -1e6 && value <= 1e6) shown[tag] = show(value)
  }
  const lens = textOf(photo['LensModel'])
  return lens ? { ...shown, LensModel: lens } : shown
}
