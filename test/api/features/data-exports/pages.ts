import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser } from 'playwright-core'
import sharp from 'sharp'
import t from 'tap'
import { indexPage, recordsPage } from '../../../../api/features/data-exports/pages.ts'
import { noBrowser, openBrowser } from '../../../support/browser.ts'
import { eventually } from '../../../support/eventually.ts'

/** The pages of an archive in a browser, from the file system. `SCREENSHOTS=folder` keeps what they looked like. */
const skip = noBrowser ?? false
const folder = await mkdtemp(join(tmpdir(), 'keepsake-pages-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
const put = async (path: string, content: string | Buffer) => {
  await mkdir(dirname(join(folder, path)), { recursive: true })
  await writeFile(join(folder, path), content)
}

const EVIL = `"><script>document.title='evil'</script><img src=https://evil.example/x onerror="document.title='evil'">`
const FOLDER = "2026/2026-11-21 Reunion #1 & 50% off 'Été'"
const files = [
  { path: `${FOLDER}/a b?.jpg`.replace('?', '_'), mimeType: 'image/jpeg' },
  { path: `${FOLDER}/100%.png`, mimeType: 'image/png' },
  { path: `${FOLDER}/film.mp4`, mimeType: 'video/mp4' },
  { path: '2024/2024-05/raw.heic', mimeType: 'image/heic' },
]
const picture = sharp({ create: { width: 40, height: 30, channels: 3, background: '#c5533f' } })
await put(files[0]?.path ?? '', await picture.jpeg().toBuffer())
await put(files[1]?.path ?? '', await picture.png().toBuffer())
await put(files[2]?.path ?? '', 'no film')
await put(files[3]?.path ?? '', 'no picture')
const records = [
  { event_title: EVIL, text: `${EVIL}\nsecond line`, earlier_texts: ['before'], deleted_at: null },
  { event_title: null, text: 'x', earlier_texts: [], deleted_at: null },
]
const page1 = recordsPage({
  title: EVIL,
  all: 'All your data',
  heading: 'event_title',
  records,
  page: 1,
  before: undefined,
  next: 'pages/b-2.html',
})
await put('pages/b-1.html', page1)
await put(
  'pages/b-2.html',
  recordsPage({
    title: 'B',
    all: 'All your data',
    heading: 'text',
    records,
    page: 2,
    before: 'pages/b-1.html',
    next: undefined,
  }),
)
await put(
  'index.html',
  indexPage({
    words: {
      title: 'Your data in Keepsake, 2026-11-21',
      data: 'Your data',
      first: 'What you wrote is in the first one.',
    },
    document: 'data.json',
    archives: [
      { name: 'keepsake-part-1-of-2.zip', files: 4 },
      { name: 'keepsake-part-2-of-2.zip', files: 1 },
    ],
    number: 1,
    files,
    sections: [
      { title: 'Your comments', records: 2, pages: ['pages/b-1.html', 'pages/b-2.html'] },
      { title: 'Your albums', records: 0, pages: [] },
    ],
  }),
)

// Without one every test is skipped.
const browser = (skip ? undefined : await openBrowser()) as Browser
t.teardown(() => browser?.close())
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const shots = process.env['SCREENSHOTS']

for (const [name, width, colorScheme] of [
  ['phone', 375, 'dark'],
  ['desktop', 1280, 'light'],
] as const) {
  t.test(`a person looks at everything without a network: ${name}`, { skip }, async (t) => {
    const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme, offline: true })
    t.teardown(() => context.close())
    const page = await context.newPage()
    const elsewhere: string[] = []
    page.on('request', (request) => request.url().startsWith('file:') || elsewhere.push(request.url()))
    const violations = async () => {
      await page.evaluate(axe)
      return page.evaluate(
        `axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ' ' + nodes[0].html))`,
      )
    }
    await page.goto(pathToFileURL(join(folder, 'index.html')).href)
    t.match(await page.title(), 'Your data in Keepsake, 2026-11-21')
    t.equal(
      await page
        .locator('img')
        .evaluateAll(
          (all) => all.filter((one) => (one as unknown as { naturalWidth: number }).naturalWidth > 0).length,
        ),
      0,
      'a closed folder loads nothing',
    )
    await page.getByText(`${FOLDER} (3)`).click()
    // Not by `waitForFunction`, which evaluates text in the page: its policy forbids that.
    await eventually('pictures', () =>
      page.evaluate<boolean>(`[...document.images].every((one) => one.naturalWidth > 0)`),
    )
    t.equal(await page.locator('img').count(), 2)
    t.equal(await page.locator('video').count(), 1)
    if (shots) await page.screenshot({ path: join(shots, `archive-index-${name}.png`), fullPage: true })
    t.strictSame(await violations(), [])
    await page.getByRole('link', { name: 'Your comments' }).click()
    t.equal(await page.locator('article h2').first().textContent(), EVIL)
    t.match(await page.locator('dd').first().textContent(), `${EVIL}\nsecond line`)
    t.not(await page.title(), 'evil')
    if (shots) await page.screenshot({ path: join(shots, `archive-records-${name}.png`), fullPage: true })
    t.strictSame(await violations(), [])
    await page.getByRole('link', { name: 'Next page' }).first().click()
    await page.getByRole('link', { name: 'All your data' }).first().click()
    t.match(page.url(), /index\.html$/)
    t.strictSame(elsewhere, [], 'nothing was asked for elsewhere')
  })
}
