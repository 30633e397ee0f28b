import type { ColorSpace } from './header.ts'

/** ICC.1:2022, 7.2: the profile header, and after it a table of tags. */
const HEADER_BYTES = 128
const MAX_TAGS = 256

/** The primaries of sRGB, adapted to D50 as profiles store them. */
const SRGB = {
  rXYZ: [0.4361, 0.2225, 0.0139],
  gXYZ: [0.3851, 0.7169, 0.0971],
  bXYZ: [0.1431, 0.0606, 0.7141],
} as const
/** Profiles of sRGB differ by rounding and by how they adapt the white; the green of Adobe RGB is 0.18 away. */
const MAX_APART = 0.01
/** Of the curve, in values of the picture: about three steps of 256. A gamma of 2.2 passes, 1.8 does not. */
const MAX_OFF = 0.012
const CURVE_AT = [0.25, 0.5, 0.75]

/**
 * Whether the colors need no conversion. The numbers of a profile decide, not its name: phones name profiles such as
 * "Display P3 Gamut with sRGB Transfer". No profile means sRGB; one without primaries is converted.
 */
export function isSrgbProfile(profile: Buffer | null): boolean {
  if (profile === null) return true
  const tags = tagsOf(profile)
  // Decoders use the table of colors where there is one.
  if (!tags || tags.has('A2B0')) return false
  const hasPrimaries = Object.entries(SRGB).every(([name, values]) => {
    const tag = tags.get(name)
    return tag !== undefined && values.every((value, i) => Math.abs(numberAt(tag, 8 + 4 * i) - value) <= MAX_APART)
  })
  return hasPrimaries && ['rTRC', 'gTRC', 'bTRC'].every((name) => isSrgbCurve(tags.get(name)))
}

/** Whether a decoder can use the profile for pixels of this kind. Others say nothing about the colors. */
export const fitsProfile = (profile: Buffer, space: ColorSpace): boolean =>
  tagsOf(profile) !== undefined && profile.toString('latin1', 16, 20) === space

/** Undefined for what is no whole profile. */
function tagsOf(profile: Buffer): Map<string, Buffer> | undefined {
  if (profile.length < HEADER_BYTES + 4 || profile.toString('latin1', 36, 40) !== 'acsp') return undefined
  const count = profile.readUInt32BE(HEADER_BYTES)
  if (count > MAX_TAGS || HEADER_BYTES + 4 + 12 * count > profile.length) return undefined
  const tags = new Map<string, Buffer>()
  for (let i = 0; i < count; i++) {
    const at = HEADER_BYTES + 4 + 12 * i
    const name = profile.toString('latin1', at, at + 4)
    const [from, length] = [profile.readUInt32BE(at + 4), profile.readUInt32BE(at + 8)]
    if (tags.has(name)) return undefined
    // As decoders do: what is cut off is often only a name or a copyright.
    if (from + length <= profile.length) tags.set(name, profile.subarray(from, from + length))
  }
  return tags
}

/** `s15Fixed16Number`; NaN beyond the end. */
const numberAt = (tag: Buffer, at: number): number => (at + 4 <= tag.length ? tag.readInt32BE(at) / 65_536 : Number.NaN)

function isSrgbCurve(tag: Buffer | undefined): boolean {
  const curve = tag && curveOf(tag)
  return curve !== undefined && CURVE_AT.every((value) => Math.abs(encoded(curve(value)) - value) <= MAX_OFF)
}

const encoded = (light: number): number => (light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055)

/** From a value of the picture to its light, both from 0 to 1 (10.6 and 10.18). Undefined for what is not known. */
function curveOf(tag: Buffer): ((value: number) => number) | undefined {
  const type = tag.toString('latin1', 0, 4)
  if (type === 'curv' && tag.length >= 12) return sampled(tag)
  if (type === 'para' && tag.length >= 12) return parametric(tag)
  return undefined
}

function sampled(tag: Buffer): ((value: number) => number) | undefined {
  const count = tag.readUInt32BE(8)
  if (count === 0) return (value) => value
  if (12 + 2 * count > tag.length) return undefined
  const sample = (i: number) => tag.readUInt16BE(12 + 2 * i)
  if (count === 1) return (value) => value ** (sample(0) / 256)
  return (value) => {
    const at = value * (count - 1)
    const below = Math.min(Math.floor(at), count - 2)
    return (sample(below) + (at - below) * (sample(below + 1) - sample(below))) / 65_535
  }
}

/** Types 0, 3 and 4, as which sRGB is written. */
function parametric(tag: Buffer): ((value: number) => number) | undefined {
  const type = tag.readUInt16BE(8)
  const read = (i: number) => numberAt(tag, 12 + 4 * i)
  const [g, a, b, c, d] = [read(0), read(1), read(2), read(3), read(4)]
  if (type === 0) return (value) => value ** g
  if (type !== 3 && type !== 4) return undefined
  const [e, f] = type === 4 ? [read(5), read(6)] : [0, 0]
  return (value) => (value >= d ? (a * value + b) ** g + e : c * value + f)
}
