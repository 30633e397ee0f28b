/**
 * Profiles of colors that a container declares by the numbers of ISO/IEC 23091-2, where it holds no profile: wide gamuts, and
 * HDR by PQ or HLG (Rec. ITU-R BT.2100).
 */

const [PQ, HLG] = [16, 18]
/** Red, green and blue as X, Y and Z, adapted to D50 as profiles store them. */
const SRGB = [0.4361, 0.2225, 0.0139, 0.3851, 0.7169, 0.0971, 0.1431, 0.0606, 0.7141]
const P3 = [0.5151, 0.2412, -0.0011, 0.292, 0.6922, 0.0419, 0.1571, 0.0666, 0.7841]
const BT2020 = [0.6735, 0.279, -0.0019, 0.1657, 0.6753, 0.03, 0.125, 0.0456, 0.7969]
const PRIMARIES: Readonly<Record<number, readonly number[]>> = { 9: BT2020, 11: P3, 12: P3 }
/** As many as there are values of 10 bits. */
const SAMPLES = 1024

/** Null where the colors count as sRGB: without a profile, all but these do. Pure. */
export function declaredProfile(primaries: number, transfer: number): Buffer | null {
  const isHdr = transfer === PQ || transfer === HLG
  const colorants = PRIMARIES[primaries]
  if (!colorants && !isHdr) return null
  const light = isHdr ? (value: number) => toneMapped(transfer === PQ ? nitsOfPq(value) : nitsOfHlg(value)) : srgb
  return profileOf(colorants ?? SRGB, light)
}

/** Whether the numbers name sRGB, or BT.709, whose pictures are shown by the same curve. Pure. */
export const declaresSrgb = (primaries: number, transfer: number): boolean =>
  primaries === 1 && (transfer === 13 || transfer === 1)

const srgb = (value: number) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)

/** In cd/m²: the white of pictures that are not HDR (Rep. ITU-R BT.2408), and the highlights that cameras write. */
const [WHITE, MASTERED] = [203, 1000]

const [M1, M2] = [1305 / 8192, 2523 / 32]
const [C1, C2, C3] = [107 / 128, 2413 / 128, 2392 / 128]

function nitsOfPq(value: number): number {
  const power = value ** (1 / M2)
  return 10_000 * (Math.max(power - C1, 0) / (C2 - C3 * power)) ** (1 / M1)
}

function pqOf(nits: number): number {
  const power = (nits / 10_000) ** M1
  return ((C1 + C2 * power) / (1 + C3 * power)) ** M2
}

/** As a display of 1000 cd/m² shows it. */
function nitsOfHlg(value: number): number {
  const [a, b, c] = [0.17883277, 0.28466892, 0.55991073]
  const scene = value <= 0.5 ? value ** 2 / 3 : (Math.exp((value - c) / a) + b) / 12
  return MASTERED * scene ** 1.2
}

/** Keeps what is darker than about half of white, and makes room for the highlights above (Rep. ITU-R BT.2390, 5.4.1). */
function toneMapped(nits: number): number {
  const peak = pqOf(MASTERED)
  const most = pqOf(WHITE) / peak
  const knee = 1.5 * most - 0.5
  const value = Math.min(pqOf(nits) / peak, 1)
  if (value < knee) return nits / WHITE
  const t = (value - knee) / (1 - knee)
  const bent =
    (2 * t ** 3 - 3 * t ** 2 + 1) * knee + (t ** 3 - 2 * t ** 2 + t) * (1 - knee) + (3 * t ** 2 - 2 * t ** 3) * most
  return nitsOfPq(bent * peak) / WHITE
}

/** An ICC profile of version 2 for a display. `light` is the same for all three colors. */
function profileOf(colorants: readonly number[], light: (value: number) => number): Buffer {
  const curve = Buffer.alloc(12 + 2 * SAMPLES)
  curve.write('curv')
  curve.writeUInt32BE(SAMPLES, 8)
  for (let i = 0; i < SAMPLES; i++) {
    curve.writeUInt16BE(Math.round(65_535 * Math.min(light(i / (SAMPLES - 1)), 1)), 12 + 2 * i)
  }
  const colors = ['r', 'g', 'b'].map((c, i) => [`${c}XYZ`, xyz(colorants.slice(3 * i, 3 * i + 3))] as const)
  const tags = [['wtpt', xyz(D50)], ...colors] as const
  const end = 128 + 4 + 12 * (tags.length + 3)
  const head = Buffer.alloc(128)
  head.writeUInt32BE(end + XYZ_BYTES * tags.length + curve.length)
  head.writeUInt32BE(0x0240_0000, 8)
  head.write('mntrRGB XYZ ', 12)
  head.write('acsp', 36)
  xyz(D50).copy(head, 68, 8)
  const entries = tags.map(([name], i) => entry(name, end + XYZ_BYTES * i, XYZ_BYTES))
  const curves = ['rTRC', 'gTRC', 'bTRC'].map((name) => entry(name, end + XYZ_BYTES * tags.length, curve.length))
  const count = Buffer.from([0, 0, 0, tags.length + 3])
  return Buffer.concat([head, count, ...entries, ...curves, ...tags.map(([, data]) => data), curve])
}

const D50 = [0.9642, 1, 0.8249]
const XYZ_BYTES = 20

function xyz(values: readonly number[]): Buffer {
  const tag = Buffer.alloc(XYZ_BYTES)
  tag.write('XYZ ')
  for (const [i, value] of values.entries()) tag.writeInt32BE(Math.round(value * 65_536), 8 + 4 * i)
  return tag
}

function entry(name: string, at: number, bytes: number): Buffer {
  const data = Buffer.alloc(12)
  data.write(name)
  data.writeUInt32BE(at, 4)
  data.writeUInt32BE(bytes, 8)
  return data
}
