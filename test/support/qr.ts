import { scanGrayBuffer } from '@undecaf/zbar-wasm'
import sharp from 'sharp'

/** What zbar reads in a picture. */
export async function readQr(png: Buffer): Promise<{ texts: string[]; width: number; height: number }> {
  const { data, info } = await sharp(png).greyscale().raw().toBuffer({ resolveWithObject: true })
  const symbols = await scanGrayBuffer(new Uint8Array(data).buffer, info.width, info.height)
  return { texts: symbols.map((symbol) => symbol.decode()), width: info.width, height: info.height }
}
