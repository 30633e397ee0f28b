import sharp, { type OverlayOptions } from 'sharp'
import { cleanText } from './clean.ts'
import { type DrawnText, fitText } from './fit.ts'

export interface Canvas {
  /** Pixels of the highlight. */
  width: number
  height: number
}

/** EBU R95 and SMPTE ST 2046-1: what has to be read stays within 90 % of each side. */
const SAFE = 0.9
/** Lines are shorter than the safe area is wide, because short lines are read faster. */
const TITLE_WIDTH = 0.8
/** Font sizes as shares of the shorter side, so that portrait highlights get letters as large as landscape ones. */
const TITLE_SIZE = 0.09
const CAPTION_SIZE = 0.044

/** Soft darkness in the shape of the letters: white text stays legible on snow. */
interface Glow {
  /** How far it spreads, in font sizes. */
  blur: number
  /** The share of black where it is darkest. */
  strength: number
  /** How soon it is: 1 keeps the blur as it is. */
  growth: number
}
const SHADOW: Glow = { blur: 0.07, strength: 0.75, growth: 1.4 }
const HALO: Glow = { blur: 0.4, strength: 0.6, growth: 2 }
/** The share of black at the bottom of a picture with a caption. */
const BAND = 0.6

/**
 * Draws the title of a highlight in the middle of the picture: at most three lines. Returns a PNG with transparency of the
 * canvas' size, or null when the text has nothing to draw.
 */
export async function drawTitle(text: string, canvas: Canvas): Promise<Buffer | null> {
  const drawn = await fitInto(text, canvas, { share: TITLE_SIZE, lines: 3 })
  if (!drawn) return null
  const top = Math.round((canvas.height - drawn.height) / 2)
  return compose(canvas, [await glow(drawn, canvas, top, HALO)], drawn, top)
}

/**
 * Draws the caption of an item, or its date and place, at the bottom of the picture: at most two lines. Returns as
 * `drawTitle` does.
 */
export async function drawCaption(text: string, canvas: Canvas): Promise<Buffer | null> {
  const drawn = await fitInto(text, canvas, { share: CAPTION_SIZE, lines: 2 })
  if (!drawn) return null
  const top = Math.round(canvas.height * (1 - (1 - SAFE) / 2)) - drawn.height
  return compose(canvas, [band(canvas, canvas.height - top + 2 * drawn.size)], drawn, top)
}

async function fitInto(
  text: string,
  { width, height }: Canvas,
  { share, lines }: { share: number; lines: number },
): Promise<DrawnText | null> {
  const clean = cleanText(text)
  if (clean === '') return null
  return fitText(clean, { width: width * TITLE_WIDTH, lines, size: Math.min(width, height) * share })
}

async function compose(
  { width, height }: Canvas,
  behind: readonly OverlayOptions[],
  drawn: DrawnText,
  top: number,
): Promise<Buffer> {
  const letters: OverlayOptions = { ...raw(drawn), top, left: Math.round((width - drawn.width) / 2) }
  const shadow = await glow(drawn, { width, height }, top, SHADOW)
  return sharp({ create: { width, height, channels: 4, background: { r: 0, g: 0, b: 0, alpha: 0 } } })
    .composite([...behind, shadow, letters])
    .png({ compressionLevel: 6 })
    .toBuffer()
}

const raw = ({ rgba, width, height }: Pick<DrawnText, 'rgba' | 'width' | 'height'>): OverlayOptions => ({
  input: rgba,
  raw: { width, height, channels: 4 },
})

async function glow(drawn: DrawnText, canvas: Canvas, top: number, glow: Glow): Promise<OverlayOptions> {
  const blur = Math.max(0.3, glow.blur * drawn.size)
  // Beyond three deviations a blur is invisible. The whole canvas would cost 8 MB each time.
  const room = Math.ceil(3 * blur)
  const left = Math.round((canvas.width - drawn.width) / 2)
  const x = Math.max(0, left - room)
  const y = Math.max(0, top - room)
  const width = Math.min(canvas.width, left + drawn.width + room) - x
  const height = Math.min(canvas.height, top + drawn.height + room) - y
  const alpha = await sharp(shapeOf(drawn, { width, height, left: left - x, top: top - y }), {
    raw: { width, height, channels: 1 },
  })
    .blur(blur)
    .extractChannel(0)
    .raw()
    .toBuffer()
  for (const [i, value] of alpha.entries()) alpha[i] = Math.min(255, value * glow.growth) * glow.strength
  return { ...raw({ rgba: blackWith(alpha), width, height }), top: y, left: x }
}

/** Where there are letters, on a larger field. */
function shapeOf(
  drawn: DrawnText,
  { width, height, left, top }: { width: number; height: number; left: number; top: number },
): Uint8Array {
  const shape = new Uint8Array(width * height)
  for (let y = 0; y < drawn.height; y++) {
    for (let x = 0; x < drawn.width; x++) {
      shape[(top + y) * width + left + x] = drawn.rgba[(y * drawn.width + x) * 4 + 3] ?? 0
    }
  }
  return shape
}

/** Darkness that grows towards the bottom. */
function band({ width, height }: Canvas, band: number): OverlayOptions {
  const rows = Math.min(height, Math.round(band))
  const alpha = new Uint8Array(width * rows)
  for (let y = 0; y < rows; y++) {
    const share = (y + 1) / rows
    alpha.fill(Math.round(255 * BAND * share * share * (3 - 2 * share)), y * width, (y + 1) * width)
  }
  return { ...raw({ rgba: blackWith(alpha), width, height: rows }), top: height - rows, left: 0 }
}

function blackWith(alpha: Uint8Array): Buffer {
  const rgba = Buffer.alloc(alpha.length * 4)
  for (let i = 0; i < alpha.length; i++) rgba[i * 4 + 3] = alpha[i] ?? 0
  return rgba
}
