import * as z from 'zod'
import { isCaptureTime } from '../runtime/capture-time.ts'

type Tags = Readonly<Record<string, string>>

const Instant = z.iso.datetime({ offset: true })

const first = (tags: Tags, ...names: string[]): string | undefined =>
  names.map((name) => tags[name]).find((value) => value !== undefined && value.trim() !== '')

/** By name, and from when on it counts: cameras without a clock write a time near the epoch of their container. */
const TIMES: readonly [name: string, from: number][] = [
  ['com.apple.quicktime.creationdate', Number.NEGATIVE_INFINITY],
  ['creation_time', Date.UTC(1980)],
  ['date', Number.NEGATIVE_INFINITY],
]

/** When the video was captured. A digitized film says it in the tags that people and programs for editing write. */
export function capturedAtOf(tags: Tags): string | null {
  for (const [name, from] of TIMES) {
    const iso = (tags[name] ?? '').trim().replace(/([+-]\d\d)(\d\d)$/, '$1:$2')
    const at = new Date(iso)
    if (Instant.safeParse(iso).success && isCaptureTime(at) && at.getTime() >= from) return iso
  }
  return null
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
