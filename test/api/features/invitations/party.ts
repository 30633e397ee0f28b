import t from 'tap'
import { aPerson, startTestApi } from '../../../support/api.ts'
import { invitationWorld } from '../../../support/invitations.ts'

/** Forty phones behind one address within a minute, and a client that guesses slugs. */
const api = await startTestApi(t, { settings: { RATE_LIMIT_FACTOR: '1', TRUST_PROXY_HOPS: '1' } })
const world = invitationWorld(api)
const from = (ip: string) => ({ headers: { 'x-forwarded-for': ip } })

t.test('forty guests at one address look up a slug, each several times, and respond', async (t) => {
  const at = await world.event()
  const made = await world.invite(at)
  const statuses = new Set<number>()
  for (let phone = 0; phone < 40; phone++) {
    const guest = await aPerson(api)
    for (const path of [
      `/i/${made.slug}`,
      `/api/invitations/by-slug/${made.slug}`,
      `/api/invitations/by-slug/${made.slug}`,
    ]) {
      statuses.add((await api.call(undefined, 'GET', path, from('203.0.113.1'))).status)
    }
    const path = `/api/invitations/${made.wireId}/respond`
    const json = { response: 'accept', token: made.token }
    const { status } = await api.call(guest, 'POST', path, { ...from('203.0.113.1'), json })
    t.equal(status, phone === 0 ? 200 : 409, `phone ${phone}: the first answer counts, none is refused for the number`)
  }
  t.strictSame([...statuses], [200])
})

t.test('repeats and refusals of an invitation use up nothing of the thirty an hour', async (t) => {
  const at = await world.event()
  const path = `/api/orgs/${api.org}/events/${at.wireId}/invitations`
  const invite = (json: object, key: string) =>
    api.call(api.people.owner, 'POST', path, { json, headers: { 'idempotency-key': key } })
  const first = { email: world.newEmail() }
  t.equal((await invite(first, 'first')).status, 201)
  for (let i = 0; i < 30; i++) {
    t.equal((await invite(first, 'first')).status, 201)
    t.equal((await invite(first, `again-${i}`)).status, 409)
  }
  for (let i = 1; i < 30; i++) t.equal((await invite({ email: world.newEmail() }, `key-${i}`)).status, 201)
  const refused = await invite({ email: world.newEmail() }, 'last')
  t.match([refused.status, refused.code], [429, 'RATE_LIMITED'])
  t.ok(Number(refused.headers.get('retry-after')) > 60)
  t.equal((await invite(first, 'first')).status, 201, 'a repeat is answered')
})

t.test('many different slugs from one address are refused, a slug that was named before is not', async (t) => {
  const slug = (i: number) => `2222222${'23456789ABCDEFGHJKMNPQRSTUVWXYZ'[i % 31]}`.replace(/^22/, i < 31 ? '22' : '33')
  const ask = (i: number, ip: string) => api.call(undefined, 'GET', `/api/invitations/by-slug/${slug(i)}`, from(ip))
  const answers = []
  for (let i = 0; i < 62; i++) answers.push((await ask(i, '203.0.113.2')).status)
  t.strictSame([...new Set(answers.slice(0, 60))], [404])
  t.equal(answers.at(-1), 429)
  t.equal((await ask(0, '203.0.113.2')).status, 404, 'named before')
  t.equal((await ask(61, '203.0.113.3')).status, 404, 'another address')
})

t.test('a browser is refused with a page that says when to try again, a program with the envelope', async (t) => {
  const slug = (i: number) => `3333333${'23456789ABCDEFGHJKMNPQRSTUVWXYZ'[i % 31]}`.replace(/^33/, i < 31 ? '33' : '44')
  const open = (i: number, accept: string) =>
    fetch(`${new URL(api.publicUrl).origin}/i/${slug(i)}`, { headers: { accept, 'x-forwarded-for': '203.0.113.4' } })
  for (let i = 0; i < 60; i++) await (await open(i, 'text/html')).text()
  const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
  const page = await open(60, browser)
  const text = await page.text()
  t.equal(page.status, 429)
  t.match(page.headers.get('content-type'), /^text\/html/)
  t.match(page.headers.get('content-security-policy'), /^default-src 'none'/)
  t.equal(page.headers.get('vary'), 'Accept')
  const minutes = Math.ceil(Number(page.headers.get('retry-after')) / 60)
  t.match(text, minutes > 1 ? `Try again in ${minutes} minutes.` : 'Try again in a minute.')
  t.notMatch(text, 'type="module"')
  for (const accept of ['*/*', 'application/json', 'application/json, text/html;q=0.5']) {
    const envelope = await open(60, accept)
    t.match(await envelope.json(), { error: { code: 'RATE_LIMITED' } }, accept)
  }
})
