import type { ImageFormat } from './header.ts'

const HEIC = ['heic', 'heix', 'heim', 'heis', 'hevc', 'hevx', 'mif1', 'msf1']

/**
 * The format by the first bytes alone: names and declared types are the uploader's. Undefined for everything that is not
 * converted, SVG, PDF and TIFF among it. Pure.
 */
export function sniff(head: Buffer): ImageFormat | undefined {
  const text = (from: number, to: number) => head.toString('latin1', from, to)
  if (text(0, 3) === '\xff\xd8\xff') return 'jpeg'
  if (text(0, 8) === '\x89PNG\r\n\x1a\n') return 'png'
  if (text(0, 6) === 'GIF87a' || text(0, 6) === 'GIF89a') return 'gif'
  if (text(0, 4) === 'RIFF' && text(8, 12) === 'WEBP') return 'webp'
  if (text(4, 8) !== 'ftyp') return undefined
  const brands = [text(8, 12), ...(text(16, Math.min(256, head.readUInt32BE(0))).match(/.{4}/gs) ?? [])]
  if (brands.some((b) => b === 'avif' || b === 'avis')) return 'avif'
  return brands.some((b) => HEIC.includes(b)) ? 'heif' : undefined
}
