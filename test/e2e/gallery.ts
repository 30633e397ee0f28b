// A process of its own: the platform takes its settings from the environment.
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Request } from 'playwright-core'
import sharp from 'sharp'
import t, { type Test } from 'tap'
import { signIn } from '../../local/demo/client.ts'
import { browserFolder, COUNT_MOTIONS, noBrowser, openPage, type PageUnderTest } from '../support/browser.ts'
import { clip } from '../support/clips.ts'
import { testDatabase } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { PHONE } from '../support/pictures.ts'

/**
 * Photos on the demo page, in a real Chromium against the whole platform. `SCREENSHOTS=folder` keeps what it looked like.
 * Takes over 20 s: photos and the motion of a Live Photo are converted while the page is watched.
 */

if (noBrowser) {
  t.plan(0, noBrowser)
  process.exit()
}

const HTML_NAME = '<img src=x onerror=boom()>.jpg'
const OLD = 450
const folder = await browserFolder(t)
const { url: database } = await testDatabase(t)
process.env['KEEPSAKE_DATABASE_URL'] = database
let under: PageUnderTest
let page: PageUnderTest['page']
const until = (condition: string) => under.until(condition)

/** A photo of one colour, taken at a time on the camera's clock. */
const photo = (colour: string, takenAt: string) =>
  sharp({ create: { width: 900, height: 600, channels: 3, background: colour } })
    .withExif({ ...PHONE, IFD2: { ...PHONE['IFD2'], DateTimeOriginal: takenAt } })
    .jpeg()
    .toBuffer()

/** A folder as people have it: folders in it, a Live Photo, and more other files than one read of a folder returns. */
async function makeTrip(): Promise<string> {
  const trip = join(folder, 'trip')
  await mkdir(join(trip, 'day 1'), { recursive: true })
  await writeFile(join(trip, 'day 1', 'IMG_0001.JPG'), await photo('#c33', '2024:05:17 12:20:30'))
  await writeFile(join(trip, 'day 1', 'IMG_0001.MOV'), await sampleMotion())
  await writeFile(join(trip, HTML_NAME), await photo('#3a3', '2024:05:18 09:00:00'))
  await writeFile(
    join(trip, 'zoo.png'),
    await sharp(await photo('#33c', '2023:11:02 10:00:00'))
      .keepExif()
      .png()
      .toBuffer(),
  )
  for (let i = 0; i < 120; i++) await writeFile(join(trip, `note ${i}.txt`), 'Dear all')
  await writeFile(join(trip, '.DS_Store'), 'x')
  return trip
}

const sampleMotion = async () => readFile(await clip('portrait'))

t.before(async () => {
  under = await openPage({ folder, script: COUNT_MOTIONS, moves: true })
  page = under.page
})
t.teardown(() => under?.close())

/** Drops a folder as the desktop would: the browser makes the entries that the page walks through. */
async function drop(path: string): Promise<void> {
  const data = { items: [], files: [path], dragOperationsMask: 1 }
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const) {
    await under.devtools.send('Input.dispatchDragEvent', { type, x: 600, y: 500, data })
    if (type === 'dragOver') await under.shoot('g1-drop')
  }
}

const months = () =>
  page.evaluate<[string, string][]>(
    `[...document.querySelectorAll('.month')].map((m) => [m.dataset.month, m.querySelector('.count').textContent])`,
  )
const tile = (name: string) => page.locator('.tile', { has: page.getByRole('button', { name }) })

t.test('a folder that is dropped is uploaded with all folders in it, and says what it skipped', async (t: Test) => {
  const trip = await makeTrip()
  await under.signIn()
  await page.getByText('Nothing here yet').waitFor()
  await drop(trip)
  await page.getByRole('heading', { name: '4 files uploaded' }).waitFor()
  t.match(await page.locator('#uploads-skipped').textContent(), /note \d+\.txt, .* and 117 other files$/)
  t.notMatch(await page.locator('#uploads-skipped').textContent(), /DS_Store/)
  await page.locator('#uploads-close').click()
})

t.test('photos stand under the months in which they were taken, blurred at once', async (t: Test) => {
  await until(`document.querySelectorAll('.tile[data-state=completed]').length === 3`)
  await until(`document.querySelectorAll('.tile .thumb.loaded').length === 3`)
  await until(`document.querySelectorAll('.month').length === 2`)
  t.strictSame(await months(), [
    ['2024-05', '2 items'],
    ['2023-11', '1 item'],
  ])
  t.equal(await page.locator('#summary').textContent(), '3 memories')
  t.equal(await page.locator('.tile .blur:not([hidden])').count(), 3)
  const blur = await page.evaluate<number[]>(`(() => {
    const canvas = document.querySelector('[data-month="2023-11"] .blur')
    return [...canvas.getContext('2d').getImageData(5, 5, 1, 1).data]
  })()`)
  t.ok((blur[2] ?? 0) > 150 && (blur[0] ?? 255) < 100, `blue: ${blur}`)
  t.strictSame(await under.violations(), [])
  await under.shoot('g2-months')
})

t.test('HTML in the name of a file stays text', async (t: Test) => {
  await tile(HTML_NAME).locator('.frame').click()
  t.equal(await page.locator('#viewer-title').textContent(), HTML_NAME)
  t.equal(await page.evaluate(`document.querySelectorAll('img[src=x]').length`), 0)
  await page.keyboard.press('Escape')
})

t.test('a Live Photo is one tile, and moves while the pointer rests on it', async (t: Test) => {
  await until(`document.querySelector('.tile[data-kind=live] .badge')?.textContent === 'Live'`)
  t.equal(await page.locator('.tile').count(), 3)
  const live = page.locator('.tile[data-kind=live] .frame')
  await live.hover()
  await until('motions === 1')
  await under.shoot('g3-live')
  await page.mouse.move(0, 0)
  await until(`!document.querySelector('.tile video')`)
  await live.hover()
  await until('motions === 2')
  await until(`!document.querySelector('.tile video')`)
  t.equal(await page.locator('.tile .moving').count(), 0, 'shows the still again at the end')
})

t.test('a finger that holds a Live Photo plays it, and does not open it', async (t: Test) => {
  await page.mouse.move(0, 0)
  const box = await page.locator('.tile[data-kind=live]').boundingBox()
  const touchPoints = [{ x: (box?.x ?? 0) + 40, y: (box?.y ?? 0) + 40 }]
  await under.devtools.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints })
  await until('motions === 3')
  await under.devtools.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] })
  await until(`!document.querySelector('.tile video')`)
  t.notOk(await page.locator('#viewer').isVisible())
})

t.test('the viewer goes through the photos by keys, and says what the file says', async (t: Test) => {
  await page.locator('.tile .frame').first().click()
  await until(`document.querySelector('#viewer-picture').naturalWidth === 900`)
  await page.getByRole('button', { name: 'Details' }).click()
  await page.locator('#viewer-facts', { hasText: /Mira Okafor.*Dimensions/ }).waitFor()
  const facts = await page.locator('#viewer-facts').textContent()
  t.match(
    facts,
    /Added byMira Okafor.*Dimensions900 × 600.*CameraAcme Phone 3.*Exposure1\/120 s · f\/1\.8.*Place48\.1351, -11\.5820/,
  )
  t.strictSame(await under.violations(), [])
  await under.shoot('g4-viewer')
  await page.keyboard.press('ArrowRight')
  await until(`document.querySelector('#viewer-title').textContent === 'IMG_0001.JPG'`)
  await until('motions === 4')
  await page.keyboard.press('ArrowRight')
  await until(`document.querySelector('#viewer-title').textContent === 'zoo.png'`)
  t.ok(await page.locator('#viewer-next').isDisabled())
  await page.keyboard.press('ArrowLeft')
  await until(`document.querySelector('#viewer-title').textContent === 'IMG_0001.JPG'`)
  await page.goBack()
  await until(`!document.querySelector('#viewer').open`)
  await page.goForward()
  await until(`document.querySelector('#viewer').open`)
  t.equal(await page.locator('#viewer-title').textContent(), 'IMG_0001.JPG', 'what the address names')
  await page.goBack()
  await until(`!document.querySelector('#viewer').open`)
  await tile('zoo.png').locator('.frame').click()
  await until(`document.querySelector('#viewer').open`)
  await page.goBack()
  await until(`!document.querySelector('#viewer').open`)
  await page.reload()
  await tile('zoo.png').waitFor()
  await page.goForward()
  await until(`document.querySelector('#viewer-title')?.textContent === 'zoo.png'`)
  await page.goBack()
  await until(`!document.querySelector('#viewer').open && location.hash === ''`)
})

const choose = (name: string) => tile(name).locator('.frame').click()

t.test('several photos are selected, and added to an album or deleted together', async (t: Test) => {
  await query(`insert into albums (id, org_id, owner_id, title, visibility, status)
    select gen_random_uuid(), org_id, uploader_id, 'Trip', 'organization', 'DRAFT' from media limit 1`)
  await page.getByRole('button', { name: 'Select' }).click()
  for (const name of ['IMG_0001.JPG', 'zoo.png']) await choose(name)
  await page.getByText('2 items selected').waitFor()
  t.strictSame(await under.violations(), [])
  await under.shoot('g5-select')
  await page.getByRole('button', { name: 'Highlight', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
  t.ok(await page.getByText('2 items selected').isVisible(), 'a highlight that is not made leaves them selected')
  await page.getByRole('button', { name: 'Add to album' }).click()
  await page.getByRole('button', { name: /^Trip/ }).click()
  await page.getByText('2 items added to “Trip”').waitFor()
  t.strictSame(await query(`select count(*)::int from album_media`), [{ count: 2 }])
  await page.getByRole('button', { name: 'Select' }).click()
  await choose('zoo.png')
  await page.getByRole('button', { name: 'Add to album' }).click()
  await page.getByRole('button', { name: 'New album' }).click()
  await page.getByLabel('Name').fill('Animals')
  t.strictSame(await under.violations(), [])
  await page.getByRole('button', { name: 'Create draft' }).click()
  await page.getByText('1 item added to “Animals”').waitFor()
  await page.getByRole('button', { name: 'Select' }).click()
  for (const name of ['IMG_0001.JPG', 'zoo.png']) await choose(name)
  await page.getByRole('button', { name: 'Delete 2 items' }).click()
  await until(`document.querySelectorAll('.tile').length === 1`)
  await until(`document.activeElement.matches('.tile .frame')`)
  await page.getByRole('button', { name: 'Undo' }).click()
  await until(`document.activeElement.id === 'photos'`)
  await until(`document.querySelectorAll('.tile').length === 3`)
  t.notOk(await page.getByRole('toolbar').isVisible())
})

t.test('what is not added after the dialog is closed is told nevertheless', async () => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const adding = /\/albums\/alb_\w+\/media$/
  await page.route(adding, async (route) => {
    await released
    await route.fulfill({ status: 403, json: { error: { code: 'FORBIDDEN', message: 'No' } } })
  })
  await page.getByRole('button', { name: 'Select' }).click()
  await choose('zoo.png')
  await page.getByRole('button', { name: 'Add to album' }).click()
  await page.getByRole('button', { name: /^Trip/ }).click()
  await page.getByText('Adding 1 of 1').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  release()
  await page.getByText('Not all items were added to “Trip”. You may not do this.').waitFor()
  await page.unroute(adding)
  await page.getByRole('button', { name: 'End selecting' }).click()
  await under.reported(403)
})

t.test('several deleted photos are restored together', async (t: Test) => {
  for (const name of [HTML_NAME, 'zoo.png']) {
    await tile(name).hover()
    await page.getByRole('button', { name: `Delete ${name}` }).click()
    await tile(name).waitFor({ state: 'detached' })
  }
  await page.getByRole('link', { name: 'Trash' }).click()
  await page.getByRole('checkbox', { name: 'Select zoo.png' }).check()
  await page.getByRole('button', { name: 'Restore 1 item' }).waitFor()
  await page.getByRole('button', { name: 'Select all' }).click()
  await under.shoot('g5-trash-select')
  t.strictSame(await under.violations(), [])
  await page.getByRole('button', { name: 'Restore 2 items' }).click()
  await page.getByText('The trash is empty').waitFor()
  await page.getByRole('link', { name: 'Photos', exact: true }).click()
  await until(`document.querySelectorAll('.tile').length === 3`)
  t.equal((await months()).length, 2)
})

t.test('what is deleted can be taken back at once', async (t: Test) => {
  await tile('zoo.png').hover()
  await page.getByRole('button', { name: 'Delete zoo.png' }).click()
  await until(`document.querySelectorAll('.month').length === 1`)
  await until(`document.activeElement.closest('.tile')?.dataset.kind === 'live'`)
  await page.getByRole('button', { name: 'Undo' }).click()
  await until(`document.querySelectorAll('.month').length === 2`)
  t.strictSame((await months()).at(-1), ['2023-11', '1 item'])
  await tile('zoo.png').waitFor()
})

t.test('a key that is held down deletes one photo', async (t: Test) => {
  let deleted = 0
  page.on('request', (request) => void (request.method() === 'DELETE' && deleted++))
  await tile(HTML_NAME).locator('.frame').click()
  await until(`document.querySelector('#viewer').open`)
  await page.keyboard.down('Delete')
  await until(`document.querySelector('#viewer-title').textContent === 'IMG_0001.JPG'`)
  for (let i = 0; i < 3; i++) await page.keyboard.down('Delete')
  await page.keyboard.up('Delete')
  await page.getByRole('button', { name: 'Undo' }).click()
  await tile(HTML_NAME).waitFor()
  t.equal(deleted, 1)
  await page.keyboard.press('Escape')
  await until(`!document.querySelector('#viewer').open`)
})

/** What another member deletes and restores. */
async function byAnother(name: string) {
  const { demo } = under.platform
  const other = await signIn(demo.base_url, demo.accounts.admin)
  const path = `/api/media/${demo.organizations[0]?.org_id}/${await tile(name).getAttribute('data-media')}`
  const look = () => page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`)
  return {
    remove: () => other.call('DELETE', path),
    /** Two, because the counts and what is shown may be of different moments. */
    async lookTwice() {
      for (let looks = 0; looks < 2; looks++) {
        const looked = page.waitForResponse((r) => r.url().endsWith('/months'))
        await look()
        await looked
      }
    },
    async restore() {
      await other.call('POST', `${path}/restore`)
      await look()
      await tile(name).waitFor()
    },
    /** Whatever the page has asked about it was not found: pictures, too. */
    async reported() {
      await under.reported(404)
      const others = under.consoleErrors.filter((text) => !text.includes('a status of 404 '))
      under.consoleErrors.splice(0, Infinity, ...others)
    },
  }
}

t.test('what another member deletes goes without a reload, and comes back with its restoration', async (t: Test) => {
  const other = await byAnother(HTML_NAME)
  await other.remove()
  await other.lookTwice()
  await tile(HTML_NAME).waitFor({ state: 'detached' })
  t.strictSame((await months())[0], ['2024-05', '1 item'])
  await other.restore()
})

t.test('the viewer goes on from what another member deletes', async () => {
  const other = await byAnother(HTML_NAME)
  await choose(HTML_NAME)
  await until(`document.querySelector('#viewer').open`)
  await other.remove()
  await other.lookTwice()
  await page.getByText('This photo was deleted.').waitFor()
  await until(`document.querySelector('#viewer-title').textContent === 'IMG_0001.JPG'`)
  await page.keyboard.press('Escape')
  await until(`!document.querySelector('#viewer').open`)
  await other.restore()
  await other.reported()
})

t.test('what another member deletes is no longer selected, and keeps nothing from an album', async () => {
  const other = await byAnother(HTML_NAME)
  await page.getByRole('button', { name: 'Select' }).click()
  for (const name of [HTML_NAME, 'zoo.png']) await choose(name)
  await page.getByRole('button', { name: 'Add to album' }).click()
  await other.remove()
  await page.getByRole('button', { name: /^Trip/ }).click()
  await page.getByText('1 item added to “Trip”. One was deleted meanwhile.').waitFor()
  await other.restore()
  await page.getByRole('button', { name: 'Select' }).click()
  for (const name of [HTML_NAME, 'zoo.png']) await choose(name)
  await page.getByText('2 items selected').waitFor()
  await other.remove()
  await other.lookTwice()
  await page.getByText('1 item selected').waitFor()
  await page.getByRole('button', { name: 'End selecting' }).click()
  await other.restore()
  await under.reported(409)
  await other.reported()
})

t.test('the trash says how many days are left, and gives a Live Photo back whole', async (t: Test) => {
  const live = page.locator('.tile[data-kind=live] .frame')
  const before = await page.evaluate<number>('motions')
  await page.mouse.move(0, 0)
  await live.hover()
  await until(`motions === ${before + 1}`)
  await live.click()
  // Until it moves, the viewer loads what is about to be unknown.
  await until(`motions === ${before + 2}`)
  await page.locator('#viewer-remove').click()
  await until(`document.querySelector('#viewer-title').textContent === 'zoo.png'`)
  await page.keyboard.press('Escape')
  await page.getByRole('link', { name: 'Trash' }).click()
  const card = page.locator('.trashed')
  await card.waitFor()
  t.equal(await card.locator('.name').textContent(), 'IMG_0001.JPG')
  t.equal(await card.locator('.left').textContent(), '30 days left')
  t.match(await card.locator('.facts').textContent(), /^Live Photo · /)
  await until(`document.querySelector('.trashed .thumb.loaded')?.naturalWidth > 0`)
  await under.shoot('g5-trash')
  await page.getByRole('button', { name: 'Restore IMG_0001.JPG' }).click()
  await page.getByText('The trash is empty').waitFor()
  await page.getByRole('link', { name: 'Photos', exact: true }).click()
  await until(`document.querySelector('.tile[data-kind=live]')`)
  t.strictSame((await months())[0], ['2024-05', '2 items'])
})

t.test('the same folder dropped after a reload uploads nothing twice', async (t: Test) => {
  await page.reload()
  await page.locator('.tile').first().waitFor()
  let uploads = 0
  page.on('request', (request) => void (/\/(single|merge)$/.test(request.url()) && uploads++))
  await drop(join(folder, 'trip'))
  await page.getByRole('heading', { name: '4 files uploaded' }).waitFor()
  t.equal(uploads, 0)
  await page.locator('#uploads-close').click()
  t.equal(await page.locator('#summary').textContent(), '3 memories')
})

t.test('a picture whose link has expired is asked for again with a new one', async (t: Test) => {
  let refused = 0
  await page.route('**/thumb.webp', (route) => (refused++ === 0 ? route.fulfill({ status: 403 }) : route.continue()))
  await page.reload()
  await until(`document.querySelectorAll('.tile .thumb.loaded').length === 3`)
  t.equal(refused, 4)
  await page.unroute('**/thumb.webp')
  await under.reported(403)
})

t.test('a person in two groups switches between them', async (t: Test) => {
  await query(`insert into memberships (org_id, user_id, role)
    select o.id, u.id, 'member' from organizations o, users u
    where o.name = 'Lake House Friends' and u.email = 'member@keepsake.example'`)
  await page.reload()
  await page.locator('#organization').selectOption({ label: 'Lake House Friends' })
  await groupIs('Lake House Friends')
  await page.getByText('Nothing here yet').waitFor()
  t.equal(await page.locator('.tile').count(), 0)
  await page.locator('#organization').selectOption({ label: 'Class of 1994' })
  await until(`document.querySelectorAll('.tile').length === 3`)
})

const inGroup = (name: string) => page.locator('#organization').selectOption({ label: name })
const groupIs = (name: string) => page.getByRole('heading', { level: 1, name }).waitFor()

t.test('the group that was chosen is there again after a reload, and in a new tab', async () => {
  await inGroup('Lake House Friends')
  await groupIs('Lake House Friends')
  await page.reload()
  await groupIs('Lake House Friends')
  const tab = await page.context().newPage()
  await tab.goto(under.platform.page.url)
  await tab.getByRole('heading', { level: 1, name: 'Lake House Friends' }).waitFor()
  await tab.close()
})

t.test('an upload that was interrupted goes on in its own group, whichever is shown', async (t: Test) => {
  const lake = join(folder, 'lake.mp4')
  const head = Buffer.from('\0\0\0\x18ftypisom\0\0\x02\0isomiso2', 'latin1')
  await writeFile(lake, Buffer.concat([head, Buffer.alloc(20_000_000, 9)]))
  await page.route('**/upload/*/2', (route) => route.abort('connectionreset'))
  const arrived = [0, 1].map((i) => page.waitForResponse((r) => r.url().endsWith(`/${i}`) && r.ok()))
  await page.locator('#files').setInputFiles(lake)
  await page.locator('#uploads-to', { hasText: /^To Lake House Friends$/ }).waitFor()
  await Promise.all(arrived)
  await under.reported(/ERR_CONNECTION_RESET/)
  await inGroup('Class of 1994')
  await groupIs('Class of 1994')
  page.once('dialog', (dialog) => void dialog.accept()) // the page warns of an upload that is not finished
  await page.reload()
  await page.unroute('**/upload/*/2')
  await groupIs('Class of 1994')
  await page.getByRole('heading', { name: 'An upload to Lake House Friends was interrupted' }).waitFor()
  t.strictSame(await under.violations(), [])
  await under.shoot('g6-interrupted')
  const sent: string[] = []
  page.on('request', (r) => void (r.method() === 'PUT' && sent.push(new URL(r.url()).pathname.split('/').at(-1) ?? '')))
  await page.locator('#files-again').setInputFiles(lake)
  await page.locator('#uploads-to', { hasText: /^To Lake House Friends$/ }).waitFor()
  await page.getByRole('heading', { name: '1 file uploaded' }).waitFor()
  t.strictSame(sent, ['2'])
  const into = `select name from media join organizations o on o.id = org_id where original_filename = 'lake.mp4'`
  t.strictSame(await query(into), [{ name: 'Lake House Friends' }])
})

t.test('a link to a photo opens it in whichever group it is, and says so if there is none', async (t: Test) => {
  await tile('zoo.png').locator('.frame').click()
  await until(`location.hash.startsWith('#media=med_')`)
  const address = page.url()
  await page.keyboard.press('Escape')
  await until(`!document.querySelector('#viewer').open`)
  await inGroup('Lake House Friends')
  await groupIs('Lake House Friends')
  const openLink = async (url: string) => {
    await page.goto('about:blank')
    await page.goto(url)
  }
  await openLink(address)
  await until(`document.querySelector('#viewer-title')?.textContent === 'zoo.png'`)
  t.equal(page.url(), address)
  await page.keyboard.press('Escape')
  await groupIs('Class of 1994')
  await openLink(`${under.platform.page.url}/#media=med_00000000000000000000000000`)
  await page.getByText('This photo cannot be shown.').waitFor()
  await under.reported(404, 404, 404)
})

t.test('a short outage while the page loads is waited for, with what its address names', async (t: Test) => {
  const id = await tile('zoo.png').getAttribute('data-media')
  const error = { code: 'SERVICE_UNAVAILABLE', message: 'One moment', retry_after: 1 }
  let asked = 0
  await page.route('**/users/me', (route) =>
    asked++ < 2 ? route.fulfill({ status: 503, json: { error } }) : route.continue(),
  )
  await page.goto('about:blank')
  await page.goto(`${under.platform.page.url}/#media=${id}`)
  await page.getByText('Keepsake does not answer at the moment.').waitFor()
  t.equal(await page.getByRole('button', { name: 'Sign in' }).count(), 0)
  t.ok(page.url().endsWith(`#media=${id}`), 'also for a person who reloads it')
  await until(`document.querySelector('#viewer-title')?.textContent === 'zoo.png'`)
  t.equal(asked, 3)
  await under.reported(503)
  await page.unroute('**/users/me')
  await page.keyboard.press('Escape')
  await until(`!document.querySelector('#viewer').open`)
})

t.test('a session that ends during an upload ends it, and the next person sends nothing of it', async (t: Test) => {
  const { demo } = under.platform
  const sent: Request[] = []
  page.on('request', (r) => void (r.url().endsWith('/single') && sent.push(r)))
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  let held = 0
  await page.route('**/single', async (route) => {
    held++
    await released
    // What the page has aborted meanwhile cannot go on.
    await route.continue().catch(() => {})
  })
  // So that it is the upload which finds out that the session has ended.
  await under.lookAway()
  const colours = ['#100', '#200', '#300', '#400', '#500', '#600']
  const files = colours.map(async (colour, i) => ({
    ...{ name: `private ${i}.jpg`, mimeType: 'image/jpeg' },
    buffer: await photo(colour, '2022:01:01 10:00:00'),
  }))
  await page.locator('#files').setInputFiles(await Promise.all(files))
  await eventually('the first files to be on their way', () => held === 3)
  await (await signIn(demo.base_url, demo.accounts.member)).call('DELETE', '/api/auth/sessions')
  release()
  await page.getByText('Your session has ended. Sign in again.').waitFor()
  await page.getByRole('button', { name: /Tomás Silva/ }).click()
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.locator('.tile').first().waitFor()
  t.equal(await page.getByText('was interrupted').count(), 0, 'of what another person has begun')
  await sleep(500)
  t.equal(sent.length, 3)
  t.strictSame(await query(`select from media where original_filename like 'private %'`), [])
  await under.reported(401, 401)
  await page.unroute('**/single')
  await page.goto('about:blank')
  await under.signIn()
})

t.test('months count what there is, and only what is near the window is loaded', async (t: Test) => {
  await fill(OLD)
  await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`)
  await until(`document.querySelectorAll('.month').length === 4`)
  t.strictSame((await months()).slice(2), [
    ['2019-07', '300 items'],
    ['2019-03', '150 items'],
  ])
  t.equal(await page.locator('#summary').textContent(), '453 memories')
  t.ok((await page.locator('.tile').count()) < 150)
  const height = await page.evaluate('document.documentElement.scrollHeight')
  await page.locator('#scrubber').waitFor()
  await page.getByLabel('Jump to a month').selectOption('2019-03')
  await until(`document.querySelectorAll('[data-month="2019-03"] .tile').length > 0`)
  t.equal(await page.locator('[data-month="2024-05"] .tile').count(), 0, 'what is out of sight has no elements')
  t.equal(await page.evaluate('document.documentElement.scrollHeight'), height, 'nothing moved')
  await under.shoot('g6-jump')
  const place = await page.evaluate('scrollY')
  await page.getByRole('link', { name: 'Trash' }).click()
  await page.getByText('The trash is empty').waitFor()
  t.notOk(await page.locator('#scrubber').isVisible())
  await page.goBack()
  await until(`document.querySelectorAll('[data-month="2019-03"] .tile').length > 0`)
  t.equal(await page.evaluate('scrollY'), place, 'and comes back to where it was')
})

/** Photos of two months of 2019, without files: a library that is larger than a window. */
async function fill(rows: number): Promise<void> {
  await query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
        conversion_state, placeholder, captured_at, created_at)
      select gen_random_uuid(), org_id, uploader_id, 'OLD_' || n || '.jpg', 'image/jpeg', 'image', 1000, 'completed',
        'succeeded', placeholder, make_timestamptz(2019, case when n % 3 = 0 then 3 else 7 end, 1 + n % 28, 12, 0, 0, 'UTC'),
        now() - interval '1 year'
      from (select org_id, uploader_id, placeholder from media where kind = 'image' limit 1) one,
        generate_series(1, $1::int) n`,
    [rows],
  )
}

async function query(sql: string, values: unknown[] = []): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: database })
  await client.connect()
  const { rows } = await client.query(sql, values)
  await client.end()
  return rows
}

/** What can be touched, is on the screen, and is smaller than a finger. Text within a line may be, and what a mouse is for. */
const TOO_SMALL = `[...document.querySelectorAll('a, button:not(.remove), select, input, summary, label.button')].filter((e) => {
  const { width, height, top, bottom } = e.getBoundingClientRect()
  const isThere = e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && width > 1 && bottom > 0 && top < innerHeight
  const isCovered = document.querySelector('dialog:modal') && !e.closest('dialog')
  return isThere && !isCovered && (width < 43.9 || height < 43.9) && getComputedStyle(e).display !== 'inline'
}).map((e) => e.outerHTML.slice(0, 120))`

t.test('nothing sticks out on a phone, by day and by night', async (t: Test) => {
  for (const [width, colorScheme] of [
    [390, 'light'],
    [360, 'dark'],
  ] as const) {
    await page.emulateMedia({ colorScheme })
    await page.setViewportSize({ width, height: 800 })
    await page.evaluate('scrollTo(0, 0)')
    await page.locator('.tile').first().waitFor()
    await under.shoot(`g7-phone-${width}`)
    const overflow = 'document.documentElement.scrollWidth - document.documentElement.clientWidth'
    t.equal(await page.evaluate(overflow), 0, `${width}`)
    await page.locator('.tile .frame').first().click()
    if (width === 390) await page.getByRole('button', { name: 'Details' }).click()
    await page.locator('#viewer-facts', { hasText: 'Dimensions' }).waitFor()
    await under.shoot(`g7-viewer-${width}`)
    t.strictSame(await under.violations(), [])
    t.strictSame(await page.evaluate(TOO_SMALL), [], 'a finger hits everything')
    await page.keyboard.press('ArrowRight')
    await page.locator('#viewer-live').waitFor()
    t.strictSame(await page.evaluate(TOO_SMALL), [], 'of a Live Photo as well')
    await under.shoot(`g7-live-${width}`)
    await page.keyboard.press('Escape')
    await until(`!document.querySelector('#viewer').open`)
    t.strictSame(await page.evaluate(TOO_SMALL), [], 'in the library as well')
    await page.getByRole('button', { name: 'Select' }).click()
    await page.locator('.tile .frame').first().click()
    await page.getByText('1 item selected').waitFor()
    await under.shoot(`g7-select-${width}`)
    t.strictSame([await page.evaluate(TOO_SMALL), await page.evaluate(overflow)], [[], 0], 'and to select')
    await page.getByRole('button', { name: 'End selecting' }).click()
  }
})

t.test('all of it without an error in the console and without a request to anywhere else', (t: Test) => {
  t.strictSame(under.consoleErrors, [])
  t.strictSame(under.elsewhere, [])
  t.end()
})
