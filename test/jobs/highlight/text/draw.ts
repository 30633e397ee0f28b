import { hash } from 'node:crypto'
import sharp from 'sharp'
import t, { type Test } from 'tap'
import { asMarkup, cleanText } from '../../../../jobs/highlight/text/clean.ts'
import { type Canvas, drawCaption, drawTitle } from '../../../../jobs/highlight/text/draw.ts'

const LANDSCAPE = { width: 640, height: 360 }
const PORTRAIT = { width: 360, height: 640 }

interface Picture extends Canvas {
  rgba: Buffer
}

async function pixels(t: Test, png: Buffer | null, canvas: Canvas): Promise<Picture> {
  t.ok(png)
  const image = sharp(png ?? Buffer.alloc(0))
  t.match(await image.metadata(), { format: 'png', ...canvas, hasAlpha: true })
  return { ...canvas, rgba: await image.raw().toBuffer() }
}

/** Where the letters are: what is opaque, and light or coloured. Shadows are black and let the picture through. */
function ink({ rgba, width, height }: Picture) {
  const box = { left: width, right: -1, top: height, bottom: -1, pixels: 0, coloured: 0 }
  for (let i = 0; i < width * height; i++) {
    // Most of the picture is empty.
    if ((rgba[i * 4 + 3] ?? 0) < 200) continue
    const [r = 0, g = 0, b = 0] = rgba.subarray(i * 4, i * 4 + 3)
    if (Math.max(r, g, b) < 128) continue
    const x = i % width
    const y = Math.floor(i / width)
    box.left = Math.min(box.left, x)
    box.right = Math.max(box.right, x)
    box.top = Math.min(box.top, y)
    box.bottom = Math.max(box.bottom, y)
    box.pixels += 1
    if (Math.max(r, g, b) - Math.min(r, g, b) > 60) box.coloured += 1
  }
  return box
}

function assertSafe(t: Test, picture: Picture, name: string) {
  const { left, right, top, bottom, pixels } = ink(picture)
  const { width, height } = picture
  t.ok(pixels > 100, `${name}: there is text`)
  const isInside = left >= width * 0.05 && right < width * 0.95 && top >= height * 0.05 && bottom < height * 0.95
  t.ok(isInside, `${name}: ${left}..${right} of ${width}, ${top}..${bottom} of ${height}`)
}

const TEXTS: Record<string, string> = {
  short: 'Summer by the sea',
  'two hundred letters without a space': 'W'.repeat(200),
  'two hundred narrow letters': 'i'.repeat(200),
  'many words': 'We went to the lake and swam until the evening came. '.repeat(4),
  Arabic: 'مرحبا بالعالم! صيف ٢٠٢٤',
  Hebrew: 'שלום עולם, ירושלים',
  'Chinese, Japanese, Korean': '家族旅行の思い出 한국어 中文测试 '.repeat(6),
  emoji: '👨‍👩‍👧‍👦🇩🇪❤️🏳️‍🌈👩🏽‍🚀',
  'a hundred joined emoji': `${'👨\u200d'.repeat(99)}👨`,
  'a tower of marks': `e${'\u0301'.repeat(190)} Z̷͑̈a̴͌l̵̈́g̶ơ`,
  'tall scripts': 'اُردو نستعلیق မြန်မာ ភាសាខ្មែរ',
  'one very wide letter': '﷽',
}
for (const [name, text] of Object.entries(TEXTS)) {
  t.test(`a title and a caption stay in the safe area: ${name}`, async (t) => {
    for (const canvas of [LANDSCAPE, PORTRAIT]) {
      assertSafe(t, await pixels(t, await drawTitle(text, canvas), canvas), `title, ${canvas.width} wide`)
      assertSafe(t, await pixels(t, await drawCaption(text, canvas), canvas), `caption, ${canvas.width} wide`)
    }
  })
}

/** Text that is drawn with the box for a missing letter looks the same whichever letters are missing. */
async function looks(t: Test, text: string): Promise<string> {
  const { rgba } = await pixels(t, await drawTitle(text, LANDSCAPE), LANDSCAPE)
  return hash('sha256', rgba)
}

/** A missing letter is drawn as a frame: ink along all four edges of its box. No letter tried here looks like that. */
async function isMissing(t: Test, letter: string): Promise<boolean> {
  const picture = await pixels(t, await drawTitle(letter, LANDSCAPE), LANDSCAPE)
  const { left, right, top, bottom } = ink(picture)
  const isInked = (x: number, y: number) => (picture.rgba[(y * picture.width + x) * 4] ?? 0) > 100
  const share = (length: number, at: (i: number) => boolean) =>
    Array.from({ length }, (_, i) => at(i)).filter(Boolean).length / length
  const edges = [
    share(right - left + 1, (i) => isInked(left + i, top + 1)),
    share(right - left + 1, (i) => isInked(left + i, bottom - 1)),
    share(bottom - top + 1, (i) => isInked(left + 1, top + i)),
    share(bottom - top + 1, (i) => isInked(right - 1, top + i)),
  ]
  return edges.every((inked) => inked > 0.9)
}

t.test('what people write has letters', async (t) => {
  const letters = 'ǎΩЖبשनবதกქአកᎠ语漢ひカ한♪☀🦊𠮷'
  for (const letter of letters) t.notOk(await isMissing(t, letter), letter)
  // Tangsa is younger than the fonts.
  t.ok(await isMissing(t, '\u{16A70}'), 'a missing letter would be found')
})

t.test('emoji are in colour, and joined ones are one picture', async (t) => {
  const of = async (text: string) => ink(await pixels(t, await drawTitle(text, LANDSCAPE), LANDSCAPE))
  const fox = await of('🦊')
  t.ok(fox.coloured > 0.5 * fox.pixels, `${fox.coloured} of ${fox.pixels} pixels are coloured`)
  t.equal((await of('Fox')).coloured, 0)
  const width = ({ left, right }: { left: number; right: number }) => right - left
  const joined = await of('👩🏽‍🚀')
  t.ok(width(joined) < 1.5 * width(fox), 'a woman astronaut')
  t.ok(width(await of('🇩🇪')) < 1.6 * width(fox), 'a flag')
})

t.test('letters join and turn as their script wants', async (t) => {
  const of = async (text: string) => ink(await pixels(t, await drawTitle(text, LANDSCAPE), LANDSCAPE))
  const width = ({ left, right }: { left: number; right: number }) => right - left
  // Joined letters are narrower than the same ones kept apart by a non-joiner.
  t.ok(width(await of('ببب')) < width(await of('ب\u200cب\u200cب')))
  // A letter of Hebrew behind a word of Hebrew is on its left.
  const word = await of('שלום')
  t.ok(word.pixels > 0)
  t.not(await looks(t, 'אב'), await looks(t, 'בא'))
})

t.test('text is data', async (t) => {
  const hostile = '<span size="900000">&lt; &#0; %{eif\\:1} \' " </b>'
  assertSafe(t, await pixels(t, await drawTitle(hostile, LANDSCAPE), LANDSCAPE), 'markup')
  t.not(await looks(t, '<b>a</b>'), await looks(t, 'a'))
  t.equal(asMarkup(`<a href="x">&'`), '&#60;a href=&#34;x&#34;&#62;&#38;&#39;')
  t.equal(cleanText('a\u0000b\ud800c\n\t d\ue000\u{10ffff}\u0085'), 'abc d')
  t.equal(cleanText('e\u0301'), 'é')
  for (const empty of ['', ' \n ', '\u0007', '\ue000']) {
    t.equal(await drawTitle(empty, LANDSCAPE), null)
    t.equal(await drawCaption(empty, LANDSCAPE), null)
  }
})

const INVISIBLE = {
  'Hangul filler': '\u3164',
  'half-width Hangul filler': '\uffa0',
  'Braille blank': '\u2800',
  'zero width space': '\u200b',
  'zero width non-joiner': '\u200c',
  'zero width joiner': '\u200d',
  'word joiner': '\u2060',
  'soft hyphen': '\u00ad',
  'mark of left to right': '\u200e',
  'override of right to left': '\u202e',
  'Arabic letter mark': '\u061c',
}
t.test('text of invisible characters is not drawn', async (t) => {
  const texts = { ...INVISIBLE, 'two hundred': '\u3164'.repeat(200), 'all of them': Object.values(INVISIBLE).join(' ') }
  for (const [name, text] of Object.entries(texts)) {
    t.equal(await drawTitle(text, LANDSCAPE), null, name)
    t.equal(await drawCaption(text, LANDSCAPE), null, name)
  }
  const picture = await pixels(t, await drawTitle(`\u3164${'a '.repeat(100)}`, LANDSCAPE), LANDSCAPE)
  t.ok(ink(picture).pixels > 100, 'one beside letters does not hide them')
})

t.test('bold and cursive letters of mathematics are drawn as ordinary ones', (t) => {
  t.equal(cleanText('𝓑𝓮𝓼𝓽 𝗱𝗮𝘆 𝟚𝟘𝟚𝟞'), 'Best day 2026')
  t.equal(cleanText('𝓮\u0301'), 'é')
  t.equal(cleanText('ﬁ ² Ａ ♡'), 'ﬁ ² Ａ ♡')
  t.end()
})

t.test('text is legible on white', async (t) => {
  const { width, height } = LANDSCAPE
  for (const draw of [drawTitle, drawCaption]) {
    const overlay = await draw('Snow', LANDSCAPE)
    const { data } = await sharp({ create: { width, height, channels: 3, background: 'white' } })
      .composite([{ input: overlay ?? Buffer.alloc(0) }])
      .removeAlpha()
      .raw()
      .toBuffer({ resolveWithObject: true })
    const box = ink(await pixels(t, overlay, LANDSCAPE))
    const levels: number[] = []
    for (let y = box.top; y <= box.bottom; y++) {
      for (let x = box.left; x <= box.right; x++) levels.push(data[(y * width + x) * 3] ?? 0)
    }
    levels.sort((a, b) => a - b)
    const dark = ((levels[Math.floor(levels.length * 0.2)] ?? 255) / 255) ** 2.2
    t.ok(1.05 / (dark + 0.05) >= 3, `${draw.name}: contrast ${(1.05 / (dark + 0.05)).toFixed(1)} : 1`)
  }
})

t.test('a caption is at the bottom, a title in the middle', async (t) => {
  const title = ink(await pixels(t, await drawTitle('Snow', LANDSCAPE), LANDSCAPE))
  const caption = ink(await pixels(t, await drawCaption('Snow', LANDSCAPE), LANDSCAPE))
  t.ok(title.top < LANDSCAPE.height / 2 && title.bottom > LANDSCAPE.height / 2)
  t.ok(caption.top > LANDSCAPE.height * 0.81)
  t.ok(caption.bottom - caption.top < title.bottom - title.top)
})
