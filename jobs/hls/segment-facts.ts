/** What a stream of H.264 holds, or a part of it. */
export interface StreamFacts {
  /** RFC 6381, from its first parameter set: `avc1.64001f`. */
  codec: string
  frames: number
  /** The times of the first and the last frame that are shown, in seconds. */
  first: number
  last: number
  /** The times of the frames with which a decoder can start, in seconds and in their order. */
  keyframes: number[]
}

export interface SegmentFacts extends StreamFacts {
  /** The numbers of its first and its last packet, 0 to 15. */
  packets: Ends
  /** When its first and its last picture are decoded, in seconds. */
  decoded: Ends
}

interface Ends {
  first: number
  last: number
}

/** Packets with a payload are numbered from 0 to 15, again and again. */
export const isNextPacket = (last: number, next: number): boolean => next === ((last + 1) & 0x0f)

/**
 * What is wrong where one segment follows another that the same muxer has written; undefined: nothing. The muxer of ffmpeg,
 * of what it encodes and of what it copies, and that of highlights number the packets of all segments of a rendition in one
 * row. So a picture that is cut short at the end of a segment is missed in the next one. Segments of several pods begin
 * anew. Pure.
 */
export function seamFault(before: SegmentFacts, next: SegmentFacts): string | undefined {
  // A player may start with any segment, so each must carry the same parameter sets.
  if (next.codec !== before.codec) return `is ${next.codec}, not ${before.codec}`
  if (!isNextPacket(before.packets.last, next.packets.first)) return 'a packet is missing before it'
  if (next.decoded.first <= before.decoded.last) return 'is decoded before the segment before it has ended'
  if (next.first <= before.last) return 'is shown before the segment before it has ended'
  return undefined
}
