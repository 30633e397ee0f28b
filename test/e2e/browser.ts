import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type Browser, chromium, type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { type Platform, startPlatform } from '../../local/platform.ts'
import { slowEncoderPath } from '../support/slow-ffmpeg.ts'

/**
 * The demo page in a real Chromium against the whole platform. `SCREENSHOTS=folder` keeps what it looked like. Takes over
 * 20 s: videos are converted and played while the page is watched.
 */

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
const FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
  ...['--disable-background-networking', '--disable-component-update', '--autoplay-policy=no-user-gesture-required'],
]
// What runs in the page is text: types of the DOM would leak into the programs, which have none.
/** Remembers everything that each tile showed, since states may pass faster than a test looks. */
const RECORD_STATES = `
  globalThis.seenStates = {}
  new MutationObserver(() => {
    for (const tile of document.querySelectorAll('.tile')) {
      const find = (part) => tile.querySelector(part)
      const states = (seenStates[find('.name').textContent] ??= [])
      const what = find('.frame').disabled ? 'placeholder' : 'play'
      const now = [tile.dataset.state, what, find('.state').textContent].join('|')
      if (states.at(-1) !== now) states.push(now)
    }
  }).observe(document, { subtree: true, childList: true, attributes: true, characterData: true })`
/** Waiting costs a test that passes nothing. */
const PATIENCE_MS = 120_000
const VIDEO = "document.querySelector('#video')"
const ffmpeg = (...args: string[]) => promisify(execFile)('ffmpeg', ['-nostdin', '-v', 'error', '-y', ...args])

if (!existsSync(CHROMIUM)) {
  t.plan(0, `${CHROMIUM} is not installed (set CHROMIUM to a browser of yours)`)
  process.exit()
}

const folder = await mkdtemp(join(tmpdir(), 'keepsake-browser-'))
const shots = process.env['SCREENSHOTS'] ?? join(folder, 'screenshots')
await mkdir(shots, { recursive: true })
let platform: Platform
let browser: Browser
let page: Page
const consoleErrors: string[] = []
const elsewhere: string[] = []

t.before(async () => {
  ;[platform, browser] = await Promise.all([
    startPlatform({
      folder: join(folder, 'data'),
      usualPorts: false,
      fastDatabase: true,
      // Also a fast machine takes long enough for the states between to be seen.
      jobEnvironment: { PATH: await slowEncoderPath(folder, 2) },
    }),
    chromium.launch({ executablePath: CHROMIUM, args: FLAGS, timeout: PATIENCE_MS }),
    // 14 s: three segments, the last of them short. Two renditions, and bytes enough to see them leave.
    ffmpeg(
      ...['-f', 'lavfi', '-i', 'testsrc2=size=1280x720:rate=24:duration=14'],
      ...['-f', 'lavfi', '-i', 'sine=frequency=330:duration=14', '-c:a', 'aac', '-pix_fmt', 'yuv420p'],
      ...['-c:v', 'libx264', '-preset', 'ultrafast', '-b:v', '3M', join(folder, 'picnic.mp4')],
    ),
  ])
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, colorScheme: 'light' })
  page = await context.newPage()
  page.setDefaultTimeout(PATIENCE_MS)
  page.on('console', (message) => void (message.type() === 'error' && consoleErrors.push(message.text())))
  page.on('pageerror', (error) => void consoleErrors.push(error.message))
  page.on('request', (request) => {
    const { origin, protocol } = new URL(request.url())
    if (protocol !== 'blob:' && origin !== platform.page.url) elsewhere.push(request.url())
  })
  await context.addInitScript({ content: RECORD_STATES })
})
t.teardown(async () => {
  await browser?.close()
  await platform?.close()
  await rm(folder, { recursive: true, force: true })
})

/** Playwright's own waiting evaluates text inside the page, which the page's policy rightly forbids. */
async function until(condition: string): Promise<void> {
  for (
    const end = Date.now() + PATIENCE_MS;
    !(await page.evaluate<boolean>(`Boolean(${condition})`));
    await sleep(20)
  ) {
    if (Date.now() > end) throw new Error(`Never became true: ${condition}`)
  }
}
const statesOf = (name: string) => page.evaluate<string[]>(`seenStates[${JSON.stringify(name)}] ?? []`)
const shoot = (name: string) => page.screenshot({ path: join(shots, `${name}.png`) })
const tile = (name: string) => page.locator('.tile', { has: page.getByRole('heading', { name, exact: true }) })

/** Sets how many bytes per second leave at most; -1: as many as can. */
async function uploadSpeed(): Promise<(bytesPerSecond: number) => Promise<void>> {
  const devtools = await page.context().newCDPSession(page)
  await devtools.send('Network.enable')
  return async (uploadThroughput) => {
    const conditions = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput }
    await devtools.send('Network.emulateNetworkConditions', conditions)
  }
}

t.test('a stranger without the link finds an empty form', async (t: Test) => {
  await page.goto(platform.page.url)
  await page.getByRole('button', { name: 'Sign in' }).waitFor()
  t.equal(await page.getByLabel('Password').inputValue(), '')
  t.equal(await page.locator('.account').count(), 0)
})

t.test('the link offers the accounts, and does not stay in the address', async (t: Test) => {
  await page.goto('about:blank')
  await page.goto(platform.page.link())
  await page.getByRole('button', { name: /Mira Okafor/ }).click()
  t.equal(page.url(), `${platform.page.url}/`)
  await shoot('1-sign-in')
})

t.test('a wrong password is refused in words', async (t: Test) => {
  await page.getByLabel('Password').fill('wrong')
  await page.getByRole('button', { name: 'Sign in' }).click()
  t.match(await page.getByRole('alert').filter({ visible: true }).textContent(), /address or the password is wrong/)
  consoleErrors.length = 0 // the browser reports the 401
})

t.test('a member signs in and sees their group', async (t: Test) => {
  await page.getByRole('button', { name: /Mira Okafor/ }).click()
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { level: 1, name: 'Class of 1994' }).waitFor()
  await page.getByText('Nothing here yet').waitFor()
  t.strictSame(await page.locator('#organization option').allTextContents(), ['Class of 1994'])
  await shoot('2-empty')
})

t.test('an upload shows its progress', async (t: Test) => {
  const setSpeed = await uploadSpeed()
  await setSpeed(300_000)
  await page.locator('#file').setInputFiles(join(folder, 'picnic.mp4'))
  const bar = page.getByRole('progressbar', { name: 'Upload of picnic.mp4' })
  await until("document.querySelector('.upload progress')?.value % 100 > 0")
  t.match(await page.locator('.upload .text').textContent(), /B of .* MB · \d+ % · .*\/s/)
  await shoot('3-uploading')
  await setSpeed(-1)
  await bar.waitFor({ state: 'detached' })
})

t.test('a video is a placeholder first, then can be played early, then is complete', async (t: Test) => {
  await tile('picnic.mp4').waitFor()
  await page.locator('.tile .state', { hasText: '%' }).waitFor()
  await shoot('4-processing')
  await page.getByRole('button', { name: 'Play picnic.mp4' }).waitFor()
  await page.locator('.tile[data-state=completed]').waitFor()
  const states = await statesOf('picnic.mp4')
  t.comment(states.join('\n'))
  t.match(states[0], /^processing\|placeholder\|/)
  t.ok(
    states.some((s) => /^processing\|placeholder\|(Preparing · )?\d+ %/.test(s)),
    'percent on the placeholder',
  )
  t.ok(
    states.some((s) => /^playable\|play\|Playable · \d+ %/.test(s)),
    'playable before it is complete',
  )
  t.equal(states.at(-1), 'completed|play|')
})

interface Playing {
  time: number
  height: number
  duration: number
  frames: number
}
const video = () =>
  page.evaluate<Playing>(
    `(({ currentTime: time, videoHeight: height, duration, ...v }, frames) =>
      ({ time, height, duration, frames }))(${VIDEO}, ${VIDEO}.getVideoPlaybackQuality().totalVideoFrames)`,
  )
const untilPlayed = (seconds: number) => until(`${VIDEO}.currentTime >= ${seconds}`)

t.test('it plays: time passes and frames are decoded', async (t: Test) => {
  await page.getByRole('button', { name: 'Play picnic.mp4' }).click()
  await untilPlayed(0.5)
  const before = await video()
  await untilPlayed(before.time + 1)
  await until(`${VIDEO}.readyState >= 3`)
  const after = await video()
  await shoot('5-playing')
  t.ok(after.height > 0)
  t.ok(after.frames > before.frames)
  t.ok(Math.abs(after.duration - 14) < 0.2, `lasts ${after.duration} s`)
})

t.test('quality can be chosen', async (t: Test) => {
  const quality = page.getByLabel('Quality')
  t.match(await quality.locator('option').allTextContents(), [/^Auto/, '720p', '360p'])
  for (const height of [360, 720]) {
    await quality.selectOption({ label: `${height}p` })
    await until(`${VIDEO}.videoHeight === ${height}`)
  }
  t.match(await page.locator('#player-details').textContent(), /0:14 · 1280 × 720 · .* MB · .*720p/)
})

t.test('it plays to its end', async (t: Test) => {
  await page.evaluate(`${VIDEO}.currentTime = 13`)
  await until(`${VIDEO}.ended`)
  t.ok((await video()).time > 13.8)
  await page.getByRole('button', { name: 'Close' }).click()
})

t.test('the original comes back byte for byte, as a download', async (t: Test) => {
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download the original of picnic.mp4' }).click(),
  ])
  t.equal(download.suggestedFilename(), 'picnic.mp4')
  const [sent, got] = await Promise.all(
    [join(folder, 'picnic.mp4'), await download.path()].map(async (path) => {
      const file = await open(path)
      const bytes = await file.readFile()
      await file.close()
      return bytes
    }),
  )
  t.ok(sent && got?.equals(sent))
})

t.test('a frame of the video stands in the place of the placeholder', async (t: Test) => {
  await page.locator('.tile .poster').waitFor({ state: 'visible' })
  const colours = await page.evaluate<number>(`(() => {
    const canvas = document.querySelector('.tile .poster')
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
    return new Set(Array.from({ length: 500 }, (_, i) => data[i * 400])).size
  })()`)
  t.ok(colours > 3)
})

t.test('all of it without an error in the console and without a request to anywhere else', (t: Test) => {
  t.strictSame(consoleErrors, [])
  t.strictSame(elsewhere, [])
  t.end()
})

t.test('a chunk that is lost on the way is sent again', async (t: Test) => {
  let lost = 0
  await page.route('**/upload/*/0', (route) => (lost++ === 0 ? route.abort('connectionreset') : route.continue()))
  // An MP4 in its first bytes and nothing after: accepted, and found to be broken when it is converted.
  const broken = Buffer.concat([
    Buffer.from('\0\0\0\x18ftypisom\0\0\x02\0isomiso2', 'latin1'),
    Buffer.alloc(300_000, 7),
  ])
  await writeFile(join(folder, 'broken.mp4'), broken)
  await page.locator('#file').setInputFiles(join(folder, 'broken.mp4'))
  await tile('broken.mp4').waitFor()
  t.equal(lost, 2)
})

t.test('a video that cannot be converted says why', async (t: Test) => {
  await tile('broken.mp4').locator('.state', { hasText: 'The file is damaged.' }).waitFor()
  t.ok(await tile('broken.mp4').locator('.frame').isDisabled())
  t.ok(
    await tile('broken.mp4')
      .getByRole('link', { name: /Download the original/ })
      .isVisible(),
  )
  await shoot('6-failed')
})

t.test('what is no video is refused in words, next to its name', async (t: Test) => {
  await page
    .locator('#file')
    .setInputFiles({ name: 'letter.mp4', mimeType: 'video/mp4', buffer: Buffer.from('Dear all') })
  const row = page.locator('.upload.failed', { hasText: 'letter.mp4' })
  await row.waitFor()
  t.match(await row.locator('.text').textContent(), /\w+ \w+/)
  await row.getByRole('button', { name: 'Cancel' }).click()
  await row.waitFor({ state: 'detached' })
})

t.test('it is as good on a phone and in the dark', async (t: Test) => {
  await page.emulateMedia({ colorScheme: 'dark' })
  await shoot('7-dark')
  await page.setViewportSize({ width: 390, height: 800 })
  await shoot('8-phone')
  const overflow = await page.evaluate<number>(
    'document.documentElement.scrollWidth - document.documentElement.clientWidth',
  )
  t.equal(overflow, 0, 'nothing sticks out at the side')
})

t.test('signing out ends the session, also for whoever comes back', async (t: Test) => {
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('button', { name: 'Sign in' }).waitFor()
  await page.reload()
  await page.getByRole('button', { name: 'Sign in' }).waitFor()
  t.equal(await page.locator('.tile').count(), 0)
})
