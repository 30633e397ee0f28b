import { qrPng } from './qr.ts'

/** A picture has about 2 KiB. Callers seldom look at more invitations within the hour for which their links work. */
const MAX_PICTURES = 1000

/**
 * Draws the QR code of a link once: the address of a picture works for anyone who has it, as often as they like. In the
 * memory of this replica alone, because the picture is a credential, which nothing stores (ADR 25). Whether it may still
 * be shown is asked before, for every request.
 */
export function qrPictures(o: { max?: number; draw?: (text: string) => Buffer } = {}) {
  const { max = MAX_PICTURES, draw = qrPng } = o
  // A Map keeps the order of insertion: the first entry is the one that was not asked for the longest.
  const drawn = new Map<string, Promise<Buffer>>()
  /** `key` stands for the text: the same key has the same text. */
  return (key: string, text: () => Promise<string>): Promise<Buffer> => {
    // Requests that come while it is being drawn wait for the same drawing.
    const picture = drawn.get(key) ?? text().then(draw)
    drawn.delete(key)
    const [oldest] = drawn.keys()
    if (drawn.size >= max && oldest !== undefined) drawn.delete(oldest)
    drawn.set(key, picture)
    picture.catch(() => {
      if (drawn.get(key) === picture) drawn.delete(key)
    })
    return picture
  }
}
export type QrPictures = ReturnType<typeof qrPictures>
