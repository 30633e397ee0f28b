/** The types of the outputs that clients get, by extension. */
export const DELIVERED_TYPES = {
  m3u8: 'application/vnd.apple.mpegurl',
  ts: 'video/mp2t',
  m4s: 'video/iso.segment',
  mp4: 'video/mp4',
  jpg: 'image/jpeg',
  webp: 'image/webp',
} as const

const OUTPUT_TYPES: Readonly<Record<string, string>> = { ...DELIVERED_TYPES, json: 'application/json' }

/**
 * The type of an object that a Job writes. It follows from the name alone: a decoder that a stranger's file has taken over
 * must not store a page under the address of the object store.
 */
export function outputType(key: string): string {
  const extension = /\.([^./]+)$/.exec(key)?.[1] ?? ''
  const known = Object.hasOwn(OUTPUT_TYPES, extension) ? OUTPUT_TYPES[extension] : undefined
  return known ?? 'application/octet-stream'
}
