// A process of its own: the platform takes its settings from the environment.
import { execFile } from 'node:child_process'
import { copyFile, open, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { browserFolder, noBrowser, openPage, type PageUnderTest } from '../support/browser.ts'
import { clip } from '../support/clips.ts'
import { testDatabase } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { slowEncoderPath } from '../support/slow-ffmpeg.ts'

/**
 * A video on the demo page, in a real Chromium against the whole platform. `SCREENSHOTS=folder` keeps what it looked
 * like. Takes over 20 s: videos are converted and played while the page is watched.
 */

// What runs in the page is text: types of the DOM would leak into the programs, which have none.
/** Remembers everything that each tile showed, since states may pass faster than a test looks. */
const RECORD_STATES = `
  globalThis.seenStates = {}
  new MutationObserver(() => {
    for (const tile of document.querySelectorAll('.tile')) {
      const find = (part) => tile.querySelector(part)
      const states = (seenStates[find('.frame').ariaLabel.match(/[\\w-]+\\.mp4/)?.[0]] ??= [])
      const what = find('.frame').ariaLabel.startsWith('Play') ? 'play' : 'placeholder'
      const now = [tile.dataset.state, what, find('.state').textContent].join('|')
      if (states.at(-1) !== now) states.push(now)
    }
  }).observe(document, { subtree: true, childList: true, attributes: true, characterData: true })`
const VIDEO = "document.querySelector('#video')"
const ffmpeg = (...args: string[]) => promisify(execFile)('ffmpeg', ['-nostdin', '-v', 'error', '-y', ...args])

if (noBrowser) {
  t.plan(0, noBrowser)
  process.exit()
}

const folder = await browserFolder(t)
process.env['KEEPSAKE_DATABASE_URL'] = (await testDatabase(t)).url
let under: PageUnderTest
let page: PageUnderTest['page']
const until = (condition: string) => under.until(condition)
const shoot = (name: string) => under.shoot(name)

t.before(async () => {
  ;[under] = await Promise.all([
    openPage({
      folder,
      script: RECORD_STATES,
      moves: true,
      // Also a fast machine takes long enough for the states between to be seen.
      jobEnvironment: { PATH: await slowEncoderPath(folder, 2) },
    }),
    // 14 s: three segments, the last of them short. Two renditions, and bytes enough to see them leave.
    ffmpeg(
      ...['-f', 'lavfi', '-i', 'testsrc2=size=1280x720:rate=12:duration=14'],
      ...['-f', 'lavfi', '-i', 'sine=frequency=330:duration=14', '-c:a', 'aac', '-pix_fmt', 'yuv420p'],
      ...['-c:v', 'libx264', '-preset', 'ultrafast', '-b:v', '3M', join(folder, 'picnic.mp4')],
    ),
  ])
  page = under.page
})
t.teardown(() => under?.close())

const statesOf = (name: string) => page.evaluate<string[]>(`seenStates[${JSON.stringify(name)}] ?? []`)
const tile = (name: string) => page.locator('.tile', { has: page.getByRole('button', { name }) })

/** Sets how many bytes per second leave at most; -1: as many as can. */
async function uploadSpeed(uploadThroughput: number): Promise<void> {
  await under.devtools.send('Network.enable')
  const conditions = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput }
  await under.devtools.send('Network.emulateNetworkConditions', conditions)
}

t.test('a stranger without the link finds an empty form', async (t: Test) => {
  await page.goto(under.platform.page.url)
  await page.getByRole('button', { name: 'Sign in' }).waitFor()
  t.equal(await page.getByLabel('Password').inputValue(), '')
  t.equal(await page.locator('.account').count(), 0)
})

t.test('the link offers the accounts, and does not stay in the address', async (t: Test) => {
  await page.goto('about:blank')
  await page.goto(under.platform.page.link())
  await page.getByRole('button', { name: /Mira Okafor/ }).click()
  t.equal(page.url(), `${under.platform.page.url}/`)
  await shoot('1-sign-in')
})

t.test('a wrong password is refused in words', async (t: Test) => {
  await page.getByLabel('Password').fill('wrong')
  await page.getByRole('button', { name: 'Sign in' }).click()
  t.match(await page.getByRole('alert').filter({ visible: true }).textContent(), /address or the password is wrong/)
  await under.reported(401)
})

t.test('a member signs in and sees their group', async (t: Test) => {
  await page.getByRole('button', { name: /Mira Okafor/ }).click()
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { level: 1, name: 'Class of 1994' }).waitFor()
  await page.getByText('Nothing here yet').waitFor()
  t.strictSame(await page.locator('#organization option').allTextContents(), ['Class of 1994'], 'those of the person')
  await shoot('2-empty')
})

t.test('an upload shows its progress', async (t: Test) => {
  await uploadSpeed(300_000)
  await page.locator('#files').setInputFiles(join(folder, 'picnic.mp4'))
  const bar = page.getByRole('progressbar', { name: 'Upload of picnic.mp4' })
  await until("document.querySelector('.upload progress')?.value % 100 > 0")
  t.match(await page.locator('#uploads-text').textContent(), /B of .* MB · \d+ % · .*\/s/)
  t.match(await page.locator('.upload .text').textContent(), /B of .* MB · \d+ %/)
  await shoot('3-uploading')
  // The list of uploads hides itself six seconds after the last one.
  const uploaded = page.getByRole('heading', { name: '1 file uploaded' }).waitFor()
  await Promise.all([uploaded, uploadSpeed(-1)])
  await bar.waitFor({ state: 'detached' })
})

t.test('a video is a placeholder first, then can be played early, then is complete', async (t: Test) => {
  await tile('picnic.mp4').waitFor()
  await page.locator('.tile .state', { hasText: '%' }).waitFor()
  await shoot('4-processing')
  await page.getByRole('button', { name: /^Play picnic.mp4/ }).waitFor()
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
  await until("document.querySelector('.tile .badge').textContent === '0:14'")
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
  await page.getByRole('button', { name: /^Play picnic.mp4/ }).click()
  await untilPlayed(0.5)
  const before = await video()
  await untilPlayed(before.time + 1)
  await until(`${VIDEO}.readyState >= 3`)
  const after = await video()
  t.strictSame(await under.violations(), [])
  await shoot('5-playing')
  t.ok(after.height > 0)
  t.ok(after.frames > before.frames)
  t.ok(Math.abs(after.duration - 14) < 0.2, `lasts ${after.duration} s`)
})

t.test('quality can be chosen', async (t: Test) => {
  const quality = page.getByLabel('Quality')
  t.match(await quality.locator('option').allTextContents(), [/^Auto/, '720p', '360p'])
  // At its end there would be nothing left to load.
  await page.evaluate(`${VIDEO}.currentTime = 0`)
  for (const height of [360, 720]) {
    await quality.selectOption({ label: `${height}p` })
    await until(`${VIDEO}.videoHeight === ${height}`)
  }
  await page.getByRole('button', { name: 'Details' }).click()
  await page.locator('#viewer-facts', { hasText: 'Streams' }).waitFor()
  const facts = await page.locator('#viewer-facts').textContent()
  t.match(facts, /Length0:14.*Dimensions1280 × 720.*Size.* MB.*Streams.*720p/)
})

t.test('it plays to its end', async (t: Test) => {
  await page.evaluate(`${VIDEO}.currentTime = 13`)
  await until(`${VIDEO}.ended`)
  t.ok((await video()).time > 13.8)
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
  await page.locator('#viewer-close').click()
  await until(`!document.querySelector('#viewer').open && location.hash === ''`)
})

t.test('a frame of the video is its picture, above the blur', async () => {
  await until(`document.querySelector('.tile .thumb.loaded')?.naturalWidth === 512`)
  await until(`document.querySelector('.tile .blur:not([hidden])')?.width > 0`)
})

t.test(
  'a compressed video plays as it is before smaller renditions exist, and changes to them where it is cut',
  async (t: Test) => {
    const compressed = join(folder, 'compressed.mp4')
    await copyFile(await clip('messaged'), compressed)
    await page.locator('#files').setInputFiles(compressed)
    await page.getByRole('button', { name: /^Play compressed.mp4/ }).click()
    // The first playlist lists the copied rendition alone.
    await until(`${VIDEO}.videoHeight === 720`)
    await untilPlayed(0.5)
    const quality = page.getByLabel('Quality')
    await quality.selectOption({ label: '720p' })
    await until(`[...document.querySelectorAll('.quality option')].some((o) => o.textContent === '360p')`)
    t.equal(await quality.locator('option:checked').textContent(), '720p', 'the choice stays when more is there')
    await page.locator('#viewer-close').click()
    await tile('compressed.mp4').and(page.locator('[data-state=completed]')).waitFor()
    t.ok((await statesOf('compressed.mp4')).some((state) => /^playable\|play\|/.test(state)))

    // Chosen before anything is there to be played: what is on its way comes too late.
    await page.route('**/720p*.ts', () => {})
    await page.getByRole('button', { name: /^Play compressed.mp4/ }).click()
    await quality.selectOption({ label: '360p' })
    await until(`${VIDEO}.videoHeight === 360`)
    await page.unroute('**/720p*.ts')
    await untilPlayed(0.5)
    // What is buffered is shown to its end: the other rendition begins with the second segment, at 7.3 s.
    await quality.selectOption({ label: '720p' })
    await page.evaluate(`${VIDEO}.currentTime = 6.8`)
    await untilPlayed(7.8)
    await until(`${VIDEO}.videoHeight === 720`)
    await page.evaluate(`${VIDEO}.currentTime = 12.5`)
    await until(`${VIDEO}.ended`)
    t.ok((await video()).time > 12.8)
    await page.locator('#viewer-close').click()
  },
)

t.test('all of it without an error in the console and without a request to anywhere else', (t: Test) => {
  t.strictSame(under.consoleErrors, [])
  t.strictSame(under.elsewhere, [])
  t.end()
})

/** An MP4 in its first bytes and nothing after: accepted, and found to be broken when it is converted. */
const brokenVideo = (bytes: number) =>
  Buffer.concat([Buffer.from('\0\0\0\x18ftypisom\0\0\x02\0isomiso2', 'latin1'), Buffer.alloc(bytes, 7)])

t.test('a file that is lost on the way is sent again', async (t: Test) => {
  let lost = 0
  await page.route('**/single', (route) => (lost++ === 0 ? route.abort('connectionreset') : route.continue()))
  await writeFile(join(folder, 'broken.mp4'), brokenVideo(300_000))
  await page.locator('#files').setInputFiles(join(folder, 'broken.mp4'))
  await tile('broken.mp4').waitFor()
  t.equal(lost, 2)
  t.equal(await page.locator('.tile').count(), 3, 'once')
  await page.unroute('**/single')
})

t.test('a large file goes on after a reload, without what has arrived', async (t: Test) => {
  await writeFile(join(folder, 'large.mp4'), brokenVideo(20_000_000))
  await page.route('**/upload/*/2', (route) => route.abort('connectionreset'))
  const arrived = [0, 1].map((i) => page.waitForResponse((r) => r.url().endsWith(`/${i}`) && r.ok()))
  await page.locator('#files').setInputFiles(join(folder, 'large.mp4'))
  await Promise.all(arrived)
  page.once('dialog', (dialog) => void dialog.accept()) // the page warns of an upload that is not finished
  await page.reload()
  await page.unroute('**/upload/*/2')
  const sent: string[] = []
  page.on('request', (r) => void (r.method() === 'PUT' && sent.push(new URL(r.url()).pathname.split('/').at(-1) ?? '')))
  await page.locator('#files').setInputFiles(join(folder, 'large.mp4'))
  await tile('large.mp4').waitFor()
  t.strictSame(sent, ['2'])
})

t.test('a video that cannot be converted says why', async (t: Test) => {
  await tile('broken.mp4').locator('.state', { hasText: 'The file is damaged.' }).waitFor()
  await tile('broken.mp4').locator('.frame').click()
  t.equal(await page.locator('#viewer-note').textContent(), 'The file is damaged.')
  await page.getByRole('button', { name: 'Details' }).click()
  await page.locator('#viewer-facts', { hasText: 'Not converted' }).waitFor()
  t.ok(await page.getByRole('link', { name: 'Download the original of broken.mp4' }).isVisible())
  await shoot('6-failed')
  await page.keyboard.press('Escape')
  await until(`!document.querySelector('#viewer').open`)
})

t.test('what is no video is refused in words, next to its name', async (t: Test) => {
  await page
    .locator('#files')
    .setInputFiles({ name: 'letter.mp4', mimeType: 'video/mp4', buffer: Buffer.from('Dear all') })
  const row = page.locator('.upload.failed', { hasText: 'letter.mp4' })
  await row.waitFor()
  t.match(await row.locator('.text').textContent(), /\w+ \w+/)
  t.notOk(await row.getByRole('button', { name: /^Try again/ }).isVisible(), 'it would be refused again')
  await row.getByRole('button', { name: 'Remove letter.mp4' }).click()
  await row.waitFor({ state: 'detached' })
})

t.test('files that can no longer be read say so, and the others go on', async (t: Test) => {
  const names = Array.from({ length: 7 }, (_, i) => `moved ${i}.mp4`)
  const paths = names.map((name) => join(folder, name))
  for (const path of paths) await writeFile(path, brokenVideo(9))
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  let held = 0
  await page.route('**/single', async (route) => {
    held++
    await released
    await route.continue()
  })
  await page.locator('#files').setInputFiles(paths)
  await eventually('the first files to be on their way', () => held === 3)
  // Those that come next.
  for (const path of paths.slice(3, 6)) await rm(path)
  release()
  await page.getByRole('heading', { name: '3 files could not be uploaded' }).waitFor()
  const row = page.locator('.upload.failed', { hasText: 'The file cannot be read any more. Choose it again.' })
  t.strictSame(await row.locator('.name').allTextContents(), names.slice(3, 6))
  t.equal(await page.locator('.connection').count(), 0, 'the connection is there')
  await tile('moved 6.mp4').waitFor()
  await page.unroute('**/single')
  await page.locator('#uploads-close').click()
})

t.test('an upload goes on when the tokens cannot be renewed at once', async (t: Test) => {
  await under.lookAway()
  await page.evaluate(`localStorage.setItem('keepsake.session',
    JSON.stringify({ ...JSON.parse(localStorage.getItem('keepsake.session')), access: 'expired' }))`)
  let renewals = 0
  const error = { code: 'SERVICE_UNAVAILABLE', message: 'One moment' }
  await page.route('**/auth/refresh', (route) =>
    renewals++ < 3 ? route.fulfill({ status: 503, json: { error } }) : route.continue(),
  )
  let sent = 0
  await page.route('**/single', (route) => {
    sent++
    return route.continue()
  })
  await writeFile(join(folder, 'later.mp4'), brokenVideo(9))
  await page.locator('#files').setInputFiles(join(folder, 'later.mp4'))
  await page.getByRole('heading', { name: '1 file uploaded' }).waitFor()
  t.equal(renewals, 4)
  t.equal(sent, 2, 'the file is not sent for each of them')
  await page.unroute('**/single')
  await page.unroute('**/auth/refresh')
  await page.reload()
  await tile('later.mp4').waitFor()
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

t.test('a link in a new tab finds the session, and tabs do not refresh against each other', async (t: Test) => {
  const second = await page.context().newPage()
  await second.goto(`${under.platform.page.url}/#trash`)
  await second.getByRole('heading', { level: 1, name: 'Trash' }).waitFor()
  // Both find their access token refused at the same time. A refresh token works once.
  const spoiled = `localStorage.setItem('keepsake.session',
    JSON.stringify({ ...JSON.parse(localStorage.getItem('keepsake.session')), access: 'expired' }))`
  let refreshes = 0
  page.context().on('request', (request) => void (request.url().endsWith('/auth/refresh') && refreshes++))
  await page.evaluate(spoiled)
  const look = `document.dispatchEvent(new Event('visibilitychange'))`
  await Promise.all([page.evaluate(look), second.evaluate(look)])
  const renewed = `JSON.parse(localStorage.getItem('keepsake.session'))?.access !== 'expired'`
  await until(renewed)
  await Promise.all([page.reload(), second.reload()])
  await page.locator('.tile').first().waitFor()
  await second.getByRole('heading', { level: 1, name: 'Trash' }).waitFor()
  t.equal(refreshes, 1)
  await under.reported(401)
  await second.getByRole('link', { name: 'Photos', exact: true }).click()
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  await second.route('**/single', async (route) => {
    await released
    // What the tab has given up meanwhile cannot go on.
    await route.abort().catch(() => {})
  })
  await writeFile(join(folder, 'held.mp4'), brokenVideo(9))
  const sending = second.waitForRequest('**/single')
  await second.locator('#files').setInputFiles(join(folder, 'held.mp4'))
  await sending
  const asked: string[] = []
  second.on('dialog', (dialog) => {
    asked.push(dialog.type())
    void dialog.dismiss()
  })
  await page.getByRole('button', { name: 'Sign out' }).click()
  await second.getByRole('button', { name: 'Sign in' }).waitFor()
  t.strictSame(asked, [], 'also a tab that uploads: it must not stay as it is, for the next person')
  release()
  await second.close()
  await page.getByRole('button', { name: 'Sign in' }).waitFor()
  await page.goto(under.platform.page.link({ account: 'member' }))
  await page.reload()
  await page.locator('.tile').first().waitFor()
})

t.test('signing out ends the session, also for whoever comes back', async (t: Test) => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  await page.route('**/auth/sessions/*', async (route) => {
    await released
    await route.continue()
  })
  const ended = page.waitForResponse('**/auth/sessions/*')
  await page.getByRole('button', { name: 'Sign out' }).click()
  // However long the answer takes.
  await page.getByRole('button', { name: 'Sign in' }).waitFor()
  release()
  await ended
  await page.reload()
  await page.getByRole('button', { name: 'Sign in' }).waitFor()
  t.equal(await page.locator('.tile').count(), 0)
})
