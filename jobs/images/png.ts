import { declaredProfile, declaresSrgb } from './declared-profile.ts'
import { type Bytes, blank, corrupt, type ImageHeader, truncated } from './header.ts'
import { isSrgbProfile } from './icc.ts'

/** Chunks that say nothing about a place. Everything else, text above all, may. */
const PLAIN = new Set(
  'IHDR PLTE IDAT IEND tRNS cHRM gAMA sBIT sRGB bKGD hIST pHYs sPLT tIME acTL fcTL fdAT eXIf iCCP'.split(' '),
)
const MAX_CHUNKS = 1_000_000
const CHANNELS: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 }

interface Found {
  exif: Buffer | null
  profile: Buffer | null
  /** The colors by the numbers of ISO/IEC 23091-2. */
  declared: readonly [primaries: number, transfer: number] | null
  isAnimated: boolean
  isPlain: boolean
}

/** Reads the chunks of a PNG (W3C PNG, third edition). `inflate` opens the profile, within a limit. Pure. */
export function readPng({ head, size }: Bytes, inflate: Inflate): ImageHeader {
  if (head.length < 33) throw truncated()
  if (head.readUInt32BE(8) !== 13 || head.toString('latin1', 12, 16) !== 'IHDR') throw corrupt()
  const [width, height] = [head.readUInt32BE(16), head.readUInt32BE(20)]
  const [depth = 0, kind = 0, , , interlace = 0] = head.subarray(24)
  const channels = CHANNELS[kind]
  if (channels === undefined) throw corrupt()
  // Without and with transparency.
  const isGrey = kind === 0 || kind === 4
  const found: Found = { exif: null, profile: null, declared: null, isAnimated: false, isPlain: true }
  const end = readChunks(head, found, inflate)
  if (end === undefined && head.length === size) throw truncated()
  const { isClear, ...colors } = colorsOf(found, isGrey)
  return {
    ...blank,
    format: 'png',
    width,
    height,
    ...colors,
    exif: found.exif,
    isAnimated: found.isAnimated,
    space: isGrey ? 'GRAY' : 'RGB ',
    mayBeTransparent: true,
    // An interlaced picture is complete only after its last pass.
    memoryBytes: interlace === 0 ? 0 : width * height * Math.max(3, channels) * (depth === 16 ? 2 : 1),
    isPlain: found.isPlain && end === size && isClear,
  }
}

/** Where the numbers and the profile contradict each other, browsers show the file in different ways: it is not clear. */
function colorsOf({ declared, profile }: Found, isGrey: boolean) {
  if (declared && declaresSrgb(...declared)) {
    return { profile: null, declaredProfile: null, isClear: isSrgbProfile(profile) }
  }
  const declaredAnew = declared && declaredProfile(...declared)
  // The profile that is made of the numbers has three colors.
  if (isGrey) return { profile, declaredProfile: null, isClear: !declaredAnew }
  return { profile, declaredProfile: declaredAnew, isClear: true }
}

type Inflate = (data: Buffer) => Buffer | null

function readChunks(head: Buffer, found: Found, inflate: Inflate): number | undefined {
  let at = 8
  for (let n = 0; n < MAX_CHUNKS && at + 12 <= head.length; n++) {
    const length = head.readUInt32BE(at)
    const type = head.toString('latin1', at + 4, at + 8)
    readChunk(type, head.subarray(at + 8, at + 8 + length), found, inflate)
    at += 12 + length
    if (type === 'IEND') return at
  }
  return undefined
}

function readChunk(type: string, data: Buffer, found: Found, inflate: Inflate): void {
  if (type === 'eXIf' && !found.exif) found.exif = data
  // They count more than a profile.
  else if (type === 'cICP' && data.length === 4 && !found.declared) found.declared = [data[0] ?? 0, data[1] ?? 0]
  else if (type === 'acTL') found.isAnimated = data.length >= 4 && data.readUInt32BE(0) > 1
  // Each may unpack to megabytes, and decoders ignore all but the first.
  else if (type === 'iCCP' && !found.profile)
    found.profile = inflate(data.subarray(data.indexOf(0) + 2)) ?? Buffer.alloc(0)
  else if (type === 'eXIf' || type === 'iCCP' || !PLAIN.has(type)) found.isPlain = false
}
