import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Browser, type CDPSession, chromium, type Page, type Request } from 'playwright-core'
import { type Platform, startPlatform } from '../../local/platform.ts'
import { eventually } from './eventually.ts'
import { QUICK_ENCODER } from './slow-ffmpeg.ts'

/** The first is Chromium without windows and what belongs to them: a quarter less CPU for a file of tests. */
const BROWSERS = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome']
const CHROMIUM = process.env['CHROMIUM'] ?? BROWSERS.map((name) => `/usr/bin/${name}`).find(existsSync)
/** Of a browser under test: nothing that it would do for itself. */
const CHROMIUM_FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
  ...['--disable-background-networking', '--disable-component-update', '--autoplay-policy=no-user-gesture-required'],
]
/**
 * For `script`: counts the motions of Live Photos that have moved, in `motions`. One lasts a second, and may be over when
 * a test looks.
 */
export const COUNT_MOTIONS = `
  globalThis.motions = 0
  document.addEventListener('timeupdate', ({ target }) => {
    if (target.currentTime > 0 && target.matches('.moving video.motion')) target.hasMoved ||= ++motions > 0
  }, true)`
/** Waiting costs a test that passes nothing. */
const PATIENCE_MS = 120_000

/** Why no browser can be started on this machine; undefined if one can. */
export const noBrowser =
  CHROMIUM && existsSync(CHROMIUM)
    ? undefined
    : `${CHROMIUM ?? 'Chromium'} is not installed (set CHROMIUM to a browser of yours)`

/** Where there is one (`noBrowser`). The caller closes it. */
export const openBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: CHROMIUM ?? '', args: CHROMIUM_FLAGS, timeout: PATIENCE_MS })

export interface PageUnderTest {
  platform: Platform
  page: Page
  devtools: CDPSession
  folder: string
  /** Errors that the browser reported, each with the address it is about. */
  consoleErrors: string[]
  /**
   * Waits until the browser has reported each of these errors, which the test has caused, and forgets them. A number is
   * the status of a response. A report may arrive after the page has shown what became of the response, and the page may
   * ask again, so the same answer to the same request is forgotten from then on.
   */
  reported(...errors: (number | RegExp)[]): Promise<void>
  /** Addresses outside of the page's own origin that it asked for. */
  elsewhere: string[]
  /** Waits for a condition in the page, the first one by default. Playwright's own waiting evaluates text there, which the page's policy forbids. */
  until(condition: string, of?: Page): Promise<void>
  /** Keeps a picture of the page in the folder that `SCREENSHOTS` names, if it does. */
  shoot(name: string, of?: Page): Promise<void>
  /** What axe-core finds on the page as it is now, a line for each rule and element. */
  violations(of?: Page): Promise<string[]>
  /**
   * As if the person had gone to another window: the page asks for nothing by itself, until it is loaded anew, and has the
   * answers to what it has asked for. What it asks about may then go without an error in the console.
   */
  lookAway(of?: Page): Promise<void>
  signIn(): Promise<void>
  /** A page in a context of its own, as in another person's browser. */
  openAnother(): Promise<Page>
  close(): Promise<void>
}

/** The demo page in a real Chromium, against a whole platform of its own. `script` runs in the page before its own. */
export async function openPage(options: {
  folder: string
  jobEnvironment?: Record<string, string>
  script?: string
  /** The page moves, as for a person who has not asked for less of that: each frame is drawn by the CPU. */
  moves?: boolean
}): Promise<PageUnderTest> {
  const { folder } = options
  const shots = process.env['SCREENSHOTS']
  if (shots) await mkdir(shots, { recursive: true })
  const [platform, browser] = await Promise.all([
    startPlatform({
      ...{ folder: join(folder, 'data'), usualPorts: false, fastDatabase: true },
      jobEnvironment: { ...QUICK_ENCODER, ...options.jobEnvironment },
    }),
    openBrowser(),
  ])
  const consoleErrors: string[] = []
  const expected = new Set<string>()
  const elsewhere: string[] = []
  const unanswered = new Map<Page, Set<Request>>()
  const openAnother = async () => {
    const page = await newPage(browser, options)
    page.on('console', (message) => {
      const { url } = message.location()
      // hls.js revokes the address of a media source that is closed before the browser has opened it.
      const isOfHls = url.startsWith('blob:') && message.text().includes('ERR_FILE_NOT_FOUND')
      const error = `${message.text()} ${url}`
      if (message.type() === 'error' && !isOfHls && !expected.has(error)) consoleErrors.push(error)
    })
    const asked = new Set<Request>()
    unanswered.set(page, asked)
    page.on('request', (request) => void asked.add(request))
    page.on('requestfinished', (request) => void asked.delete(request))
    page.on('requestfailed', (request) => void asked.delete(request))
    page.on('pageerror', (error) => void consoleErrors.push(error.message))
    page.on('request', (request) => {
      const { origin, protocol } = new URL(request.url())
      if (protocol !== 'blob:' && origin !== platform.page.url) elsewhere.push(request.url())
    })
    return page
  }
  const page = await openAnother()
  return {
    ...{ platform, page, folder, consoleErrors, elsewhere, openAnother },
    devtools: await page.context().newCDPSession(page),
    until: (condition, of = page) => until(of, condition),
    async reported(...errors) {
      for (const error of errors) {
        const isIt = typeof error === 'number' ? new RegExp(`a status of ${error} `) : error
        const look = () => consoleErrors.find((text) => isIt.test(text))
        const found = await eventually(`the browser to report ${error}`, look)
        expected.add(found)
        for (let k = consoleErrors.length; k-- > 0; ) if (consoleErrors[k] === found) consoleErrors.splice(k, 1)
      }
    },
    shoot: async (name, of = page) =>
      void (shots && (await of.screenshot({ path: join(shots, `${name}.png`), animations: 'disabled' }))),
    violations: (of = page) => violations(of),
    async lookAway(of = page) {
      await of.evaluate(`Object.defineProperty(document, 'hidden', { value: true })`)
      await of.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`)
      const isOfApi = (request: Request) => new URL(request.url()).pathname.startsWith('/v1/')
      const isAnswered = () => ![...(unanswered.get(of) ?? [])].some(isOfApi)
      // One answer may lead to the next question.
      const isDone = () => of.evaluate<boolean>('new Promise((done) => setTimeout(() => done(true)))')
      await eventually('the answers to the page', async () => isAnswered() && (await isDone()) && isAnswered())
    },
    async signIn() {
      await page.goto(platform.page.link({ account: 'member' }))
      await page.getByRole('heading', { level: 1, name: 'Class of 1994' }).waitFor()
    },
    async close() {
      await browser.close()
      await platform.close()
    },
  }
}

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

async function violations(page: Page): Promise<string[]> {
  // It takes a while to parse.
  if (!(await page.evaluate('Boolean(globalThis.axe)'))) await page.evaluate(`${axe}; undefined`)
  // What moves is half transparent for a moment, which axe would take for bad contrast.
  return page.evaluate<string[]>(`(
    document.getAnimations().map((a) => a.effect?.getComputedTiming().iterations === 1 && a.finish()),
    axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
      violations.flatMap(({ id, nodes }) => nodes.map((node) => id + ': ' + node.target.join(' ') + ' ' + node.failureSummary)))
  )`)
}

async function newPage(browser: Browser, { script = '', moves = false }): Promise<Page> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 860 },
    colorScheme: 'light',
    reducedMotion: moves ? 'no-preference' : 'reduce',
  })
  const page = await context.newPage()
  page.setDefaultTimeout(PATIENCE_MS)
  await context.addInitScript({ content: script })
  return page
}

async function until(page: Page, condition: string): Promise<void> {
  const holds = () => page.evaluate<boolean>(`Boolean(${condition})`)
  for (const end = Date.now() + PATIENCE_MS; !(await holds()); await sleep(50)) {
    if (Date.now() > end) throw new Error(`Never became true: ${condition}`)
  }
}

/** A folder that is removed when the test file has closed its page. */
export async function browserFolder(t: { teardown(done: () => Promise<void>): void }): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-browser-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}
