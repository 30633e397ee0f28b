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
  const white = rowOf([], scale, margin)
  const rows = modules.map((row) => rowOf(row, scale, margin))
  return greyscale(Array.from({ length: SIDE }, (_, y) => rows[Math.floor((y - margin) / scale)] ?? white))
}

/** A row of pixels with one bit each, 1 for white, preceded by its filter type 0. */
function rowOf(modules: readonly boolean[], scale: number, margin: number): Buffer {
  const pixels = Buffer.alloc(1 + SIDE / 8, 0xff)
  pixels[0] = 0
  modules.forEach((isDark, i) => {
    if (!isDark) return
    for (let x = margin + i * scale; x < margin + (i + 1) * scale; x++) {
      const at = 1 + (x >> 3)
      pixels[at] = (pixels[at] ?? 0) & ~(0x80 >> (x & 7))
    }
  })
  return pixels
}

/** PNG (ISO/IEC 15948) in greyscale with one bit per pixel. */
function greyscale(rows: readonly Buffer[]): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(SIDE, 0)
  header.writeUInt32BE(SIDE, 4)
  header[8] = 1
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.concat(rows))),
    chunk('IEND'),
  ])
}

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')

function chunk(type: string, data: Buffer = Buffer.alloc(0)): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  checksum.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, checksum])
}
