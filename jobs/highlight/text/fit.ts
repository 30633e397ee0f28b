import sharp from 'sharp'
import { asMarkup, charactersOf } from './clean.ts'

/** Nothing here reads a file; text is drawn by Pango into memory. */
sharp.cache(false)
sharp.concurrency(1)

const FONT = 'Noto Sans Bold'
/** The height of a line, as a share of the size of its font. Some scripts need twice that, and get fewer lines. */
const LINE = 1.5
/** Sizes that are tried, as shares of the wanted one. */
const SIZES = [1, 0.85, 0.72, 0.62]
const ELLIPSIS = '…'

export interface TextBox {
  /** Pixels. */
  width: number
  lines: number
  size: number
}

/** White text with coloured emoji on nothing, cropped to its own size. */
export interface DrawnText {
  rgba: Buffer
  width: number
  height: number
  /** Of the font, in pixels. */
  size: number
}

/**
 * Draws text as large as the box permits. Text too long for the smallest size ends with an ellipsis behind a whole
 * character. Returns null when all of its characters are invisible.
 */
export async function fitText(text: string, box: TextBox): Promise<DrawnText | null> {
  for (const share of SIZES) {
    const drawn = await draw(text, box, box.size * share).catch(ifInvisible)
    if (!drawn || !hasInk(drawn)) return null
    if (fits(drawn, box)) return drawn
  }
  return shorten(text, box, box.size * (SIZES.at(-1) ?? 1))
}

/**
 * Searches for the longest beginning that fits. A hundred joined emoji are one character that cannot be shortened: its
 * picture is reduced.
 */
async function shorten(text: string, box: TextBox, size: number): Promise<DrawnText> {
  const characters = charactersOf(text)
  const beginning = (count: number) => draw(`${characters.slice(0, count).join('').trimEnd()}${ELLIPSIS}`, box, size)
  let fitting = 1
  let tooLong = characters.length
  while (tooLong - fitting > 1) {
    const middle = Math.floor((fitting + tooLong) / 2)
    if (fits(await beginning(middle), box)) fitting = middle
    else tooLong = middle
  }
  return reduce(await beginning(fitting), box)
}

async function reduce(drawn: DrawnText, box: TextBox): Promise<DrawnText> {
  if (fits(drawn, box)) return drawn
  const { data, info } = await sharp(drawn.rgba, { raw: { width: drawn.width, height: drawn.height, channels: 4 } })
    .resize({ width: Math.floor(box.width), height: Math.floor(box.lines * box.size), fit: 'inside' })
    .raw()
    .toBuffer({ resolveWithObject: true })
  return { ...drawn, rgba: data, width: info.width, height: info.height }
}

const fits = (drawn: DrawnText, box: TextBox): boolean =>
  drawn.width <= box.width && drawn.height <= box.lines * drawn.size * LINE

/** Which characters leave no ink depends on the fonts, so Pango decides: many more than those of Unicode's lists. */
function ifInvisible(error: unknown): null {
  if (error instanceof Error && error.message === 'text: no text to render') return null
  throw error
}

/** Several lines without ink have a size. */
const hasInk = ({ rgba }: DrawnText): boolean => rgba.some((value, i) => i % 4 === 3 && value > 0)

async function draw(text: string, { width }: TextBox, wanted: number): Promise<DrawnText> {
  const size = Math.round(wanted)
  const { data, info } = await sharp({
    text: {
      text: `<span foreground="white" insert_hyphens="false">${asMarkup(text)}</span>`,
      // At 72 dots per inch, a point is a pixel.
      font: `${FONT} ${size}`,
      dpi: 72,
      width: Math.round(width),
      align: 'centre',
      wrap: 'word-char',
      rgba: true,
    },
  })
    .raw()
    .toBuffer({ resolveWithObject: true })
  return { rgba: data, width: info.width, height: info.height, size }
}
