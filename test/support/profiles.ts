import { segment, withSegments } from './image-bombs.ts'
import { u16, u32 } from './pictures.ts'

type Tag = readonly [name: string, data: Buffer]

/** An ICC profile of version 2. */
function profileOf(space: 'RGB ' | 'GRAY', name: string, tags: readonly Tag[]): Buffer {
  const title = Buffer.concat([
    Buffer.from('desc\0\0\0\0'),
    u32(name.length + 1),
    Buffer.from(`${name}\0`),
    Buffer.alloc(78),
  ])
  const all: Tag[] = [
    ['desc', title],
    ['cprt', Buffer.from('text\0\0\0\0none\0')],
    ['wtpt', xyz(0.9642, 1, 0.8249)],
    ...tags,
  ]
  let at = 128 + 4 + 12 * all.length
  const table = [u32(all.length)]
  const bodies: Buffer[] = []
  for (const [tag, data] of all) {
    table.push(Buffer.from(tag), u32(at, data.length))
    bodies.push(data, Buffer.alloc(-data.length & 3))
    at += data.length + (-data.length & 3)
  }
  const head = Buffer.alloc(128)
  head.writeUInt32BE(at)
  head.writeUInt32BE(0x0240_0000, 8)
  head.write(`mntr${space}XYZ `, 12)
  head.write('acsp', 36)
  // D50, the white of all profiles.
  u32(0xf6d6, 0x10000, 0xd32d).copy(head, 68)
  return Buffer.concat([head, ...table, ...bodies])
}

const xyz = (...values: number[]) =>
  Buffer.concat([Buffer.from('XYZ \0\0\0\0'), u32(...values.map((v) => Math.round(v * 65_536) >>> 0))])
const gamma = (value: number) => Buffer.concat([Buffer.from('curv\0\0\0\0'), u32(1), u16(Math.round(value * 256))])

const PRIMARIES = {
  srgb: [0.4361, 0.2225, 0.0139, 0.3851, 0.7169, 0.0971, 0.1431, 0.0606, 0.7141],
  p3: [0.5151, 0.2412, -0.0011, 0.2919, 0.6922, 0.0419, 0.1572, 0.0666, 0.7841],
  adobe: [0.6097, 0.3111, 0.0195, 0.2053, 0.6257, 0.0609, 0.1492, 0.0632, 0.7446],
} as const

/** A profile of a display: its primaries, the gamma of its curves, and any name. */
export function rgbProfile(primaries: keyof typeof PRIMARIES, name: string, power = 2.2): Buffer {
  const numbers = PRIMARIES[primaries]
  const tags = ['r', 'g', 'b'].flatMap((c, i): Tag[] => [
    [`${c}XYZ`, xyz(...numbers.slice(3 * i, 3 * i + 3))],
    [`${c}TRC`, gamma(power)],
  ])
  return profileOf('RGB ', name, tags)
}

export const greyProfile = (power: number): Buffer => profileOf('GRAY', `Gray Gamma ${power}`, [['kTRC', gamma(power)]])

/** The JPEG with the profile, whose pixels stay as they are. */
export const withProfile = (jpeg: Buffer, profile: Buffer): Buffer =>
  withSegments(jpeg, segment(0xe2, 'ICC_PROFILE\0\x01\x01', profile))
