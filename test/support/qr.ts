import { scanGrayBuffer, ZBarSymbolType } from '@undecaf/zbar-wasm'
import sharp from 'sharp'

/**
 * The QR codes that zbar reads in a picture. It looks for every kind of code and now and then takes a few modules
 * of a QR code for a linear one.
 */
export async function readQr(png: Buffer): Promise<{ texts: string[]; width: number; height: number }> {
  const { data, info } = await sharp(png).greyscale().raw().toBuffer({ resolveWithObject: true })
  const symbols = await scanGrayBuffer(new Uint8Array(data).buffer, info.width, info.height)
  const codes = symbols.filter((symbol) => symbol.type === ZBarSymbolType.ZBAR_QRCODE)
  return { texts: codes.map((symbol) => symbol.decode()), width: info.width, height: info.height }
}
