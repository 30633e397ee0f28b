import { crc32, deflateSync } from 'node:zlib'
import encodeQR from 'qr'

const SIDE = 512
/** ISO/IEC 18004 §6.3.8: the empty margin, in modules. */
const QUIET_ZONE = 4

/** A PNG of 512 × 512 pixels. Modules have a whole number of pixels; what is left over widens the margin. */
export function qrPng(text: string): Buffer {
  const modules = encodeQR(text, 'raw', { ecc: 'medium', border: QUIET_ZONE })
  const scale = Math.floor(SIDE / modules.length)
  if (scale < 1) throw new Error('the text is too long for a QR code of this size')
  const margin = Math.floor((SIDE - scale * modules.length) / 2)
  const isDark = (x: number, y: number) =>
    modules[Math.floor((y - margin) / scale)]?.[Math.floor((x - margin) / scale)] ?? false
  return blackAndWhite(isDark)
}

/** PNG (ISO/IEC 15948) in greyscale with one bit per pixel, each row preceded by its filter type 0. */
function blackAndWhite(isDark: (x: number, y: number) => boolean): Buffer {
  const rowBytes = 1 + SIDE / 8
  const pixels = Buffer.alloc(rowBytes * SIDE)
  for (let y = 0; y < SIDE; y++) {
    for (let x = 0; x < SIDE; x++) {
      const at = y * rowBytes + 1 + (x >> 3)
      if (!isDark(x, y)) pixels[at] = (pixels[at] ?? 0) | (0x80 >> (x & 7))
    }
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(SIDE, 0)
  header.writeUInt32BE(SIDE, 4)
  header[8] = 1
  return Buffer.concat([SIGNATURE, chunk('IHDR', header), chunk('IDAT', deflateSync(pixels)), chunk('IEND')])
}

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')

function chunk(type: string, data: Buffer = Buffer.alloc(0)): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  checksum.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, checksum])
}
