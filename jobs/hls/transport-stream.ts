/** What the first packets of an MPEG-TS segment declare about its first picture. */
export interface Opening {
  /** A decoder can start here. */
  randomAccess: boolean
  /** RFC 6381, from the sequence parameter set: `avc1.64001f`. */
  codec: string | undefined
}

const PACKET = 188
/** The PID that ffmpeg's muxer gives the first elementary stream; each segment has exactly one. */
const STREAM_PID = 0x100

/** Reads the opening of a segment from its first bytes; a few packets are enough. */
export function readOpening(bytes: Buffer): Opening | undefined {
  let randomAccess: boolean | undefined
  const payloads: Buffer[] = []
  for (let at = 0; at + PACKET <= bytes.length; at += PACKET) {
    const packet = bytes.subarray(at, at + PACKET)
    if (packet[0] !== 0x47) return undefined
    if ((packet.readUInt16BE(1) & 0x1fff) !== STREAM_PID) continue
    const adaptation = (packet.readUInt8(3) & 0x20) !== 0
    const adaptationLength = adaptation ? packet.readUInt8(4) : 0
    randomAccess ??= adaptation && adaptationLength > 0 && (packet.readUInt8(5) & 0x40) !== 0
    payloads.push(packet.subarray(adaptation ? 5 + adaptationLength : 4))
  }
  if (randomAccess === undefined) return undefined
  return { randomAccess, codec: codecOf(Buffer.concat(payloads)) }
}

/** NAL unit type 7 behind an Annex B start code: profile, constraint flags and level are its first three bytes. */
function codecOf(stream: Buffer): string | undefined {
  for (let at = stream.indexOf('000001', 0, 'hex'); at !== -1; at = stream.indexOf('000001', at + 3, 'hex')) {
    if (at + 7 > stream.length) return undefined
    if ((stream.readUInt8(at + 3) & 0x1f) === 7) return `avc1.${stream.toString('hex', at + 4, at + 7)}`
  }
  return undefined
}
