/** What precedes the first slice of a picture of H.264, behind the start codes of Annex B. */
export interface Head {
  /** The type of the first slice. */
  slice?: number
  /** Of a sequence parameter set before it, as in RFC 6381: `avc1.64001f`. */
  codec?: string
  /** Whether a picture parameter set is before it. */
  hasPictureSet?: boolean
  /** Where what is not read yet begins. */
  next: number
}

export const IDR_SLICE = 5
const [SLICE, SEQUENCE_SET, PICTURE_SET] = [1, 7, 8]
const START_CODE = Buffer.of(0, 0, 1)

/** Reads on in `stream`, which may have grown since, from `next` up to the first slice. Pure. */
export function readHead(stream: Buffer, { next, ...before }: Head): Head {
  const found: Omit<Head, 'next'> = before
  let at = stream.indexOf(START_CODE, next)
  for (; at !== -1; at = stream.indexOf(START_CODE, at + 3)) {
    // The next packet brings the rest.
    if (at + 3 >= stream.length) return { ...found, next: at }
    const type = stream.readUInt8(at + 3) & 0x1f
    if (type >= SLICE && type <= IDR_SLICE) return { ...found, slice: type, next: at }
    if (type === PICTURE_SET) found.hasPictureSet = true
    if (type !== SEQUENCE_SET) continue
    if (at + 7 > stream.length) return { ...found, next: at }
    // Its first three bytes are profile, constraint flags and level.
    found.codec ??= `avc1.${stream.toString('hex', at + 4, at + 7)}`
  }
  return { ...found, next: Math.max(next, stream.length - START_CODE.length + 1) }
}
