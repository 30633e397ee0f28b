import t from 'tap'
import { startTestApi } from '../../../support/api.ts'
import { anEvent } from '../../../support/events.ts'
import { invitationWorld } from '../../../support/invitations.ts'

/** The page that a link leads to, as the API serves it. */
const api = await startTestApi(t, { settings: { APP_STORE_URL: 'https://apps.example/keepsake' } })
const world = invitationWorld(api)
const { origin } = new URL(api.publicUrl)
const get = (path: string, base = origin) => fetch(`${base}${path}`, { redirect: 'manual' })

t.test('the page says who invites to what, and everything that it loads is there', async (t) => {
  const at = await anEvent(api, { org: api.org, orgId: world.orgId, owner: api.people.member, title: '<b>Reunion</b>' })
  const { slug } = await world.invite(at, { email: world.newEmail(), message: 'secret' })
  for (const path of [`/i/${slug}`, `/i/${slug.toLowerCase()}`, `/v1/i/${slug}`]) {
    const page = await get(path)
    const html = await page.text()
    t.equal(page.status, 200, path)
    t.match(page.headers.get('content-security-policy'), /^default-src 'none'; script-src 'self' 'sha256-/)
    t.match(html, '&lt;b&gt;Reunion&lt;/b&gt;')
    t.notMatch(html, '<b>Reunion')
    t.match(html, 'https://apps.example/keepsake')
    t.notMatch(html, 'secret')
    const files = [...html.matchAll(/"(\.\/web\/[^"]+)"/g)].map(([, file]) => new URL(file ?? '', `${origin}${path}`))
    t.ok(files.length > 6)
    for (const { pathname } of files) {
      // Libraries that other pages load.
      if (/thumbhash|hls/.test(pathname)) continue
      t.equal((await get(pathname)).status, 200, pathname)
    }
  }
})

t.test('a slug that is not there, and one of a draft, get the same friendly page', async (t) => {
  const { slug } = await world.invite(await world.event('draft'))
  const pages = await Promise.all(
    ['22222222', 'x', slug].map(async (one) => {
      const page = await get(`/i/${one}`)
      t.equal(page.status, 404, one)
      return page.text()
    }),
  )
  t.equal(new Set(pages).size, 1)
  t.match(pages[0], 'There is no such invitation')
})

t.test('no path leads out of the page’s files', async (t) => {
  for (const path of ['../package.json', '..%2fpackage.json', 'index.html', '%2e%2e/api/main.ts', 'invitations']) {
    t.equal((await get(`/i/web/${path}`)).status, 404, path)
  }
})
