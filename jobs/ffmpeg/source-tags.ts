import * as z from 'zod'

type Tags = Readonly<Record<string, string>>

const Instant = z.iso.datetime({ offset: true })

const first = (tags: Tags, ...names: string[]): string | undefined =>
  names.map((name) => tags[name]).find((value) => value !== undefined && value.trim() !== '')

/** When the video was captured. Cameras without a clock write the epoch of their container, which counts as no date. */
export function capturedAtOf(tags: Tags): string | null {
  const text = first(tags, 'com.apple.quicktime.creationdate', 'creation_time', 'date')
  if (!text) return null
  const iso = text.trim().replace(/([+-]\d\d)(\d\d)$/, '$1:$2')
  if (!Instant.safeParse(iso).success || Number.isNaN(Date.parse(iso))) return null
  return Date.parse(iso) < Date.UTC(1980) ? null : iso
}

export const cameraOf = (tags: Tags) => ({
  make: clean(first(tags, 'com.apple.quicktime.make', 'com.android.manufacturer', 'make')),
  model: clean(first(tags, 'com.apple.quicktime.model', 'com.android.model', 'model')),
})

/** ISO 6709 in degrees: `+48.1351+011.5820+519.0/`. Phones without a position fix write 0,0, which counts as none. */
export function locationOf(tags: Tags): { latitude: number; longitude: number } | null {
  const text = first(tags, 'com.apple.quicktime.location.ISO6709', 'location', 'location-eng')
  const [, lat, lon] = /^([+-]\d{1,2}(?:\.\d+)?)([+-]\d{1,3}(?:\.\d+)?)(?:[+-].*)?\/?$/.exec(text?.trim() ?? '') ?? []
  const [latitude, longitude] = [Number(lat), Number(lon)]
  if (lat === undefined || Math.abs(latitude) > 90 || Math.abs(longitude) > 180) return null
  return latitude === 0 && longitude === 0 ? null : { latitude, longitude }
}

const clean = (text: string | undefined): string | null =>
  text
    ?.replace(/\p{Cc}/gu, '')
    .trim()
    .slice(0, 128)
    // The cut may leave half of a character, which Postgres refuses.
    .replace(/\p{Cs}/gu, '') || null
