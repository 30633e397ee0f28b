import t from 'tap'
import type { Database } from '../../../../api/db/db.ts'
import { recorderOf } from '../../../../api/features/notifications/traces/record.ts'
import { likelySource, type Seen } from '../../../../api/features/notifications/traces/source.ts'
import { formatId, newUuid, parseId } from '../../../../lib/contract/ids.ts'
import { startTestApi } from '../../../support/api.ts'
import { eventually } from '../../../support/eventually.ts'
import { waitingIn } from '../../../support/in-turn.ts'
import { invitationWorld } from '../../../support/invitations.ts'
import { testPersonalData } from '../../../support/personal-data.ts'
import { quietLog } from '../../../support/quiet-log.ts'
import { whileHeld } from '../../../support/while-held.ts'

const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0'
const GMAIL = 'Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)'

const api = await startTestApi(t)
const { admin } = api.database
const world = invitationWorld(api)

t.test('who has probably opened a mail, or followed its link', async (t) => {
  const rows: [string, Partial<Seen>, string][] = [
    ['a browser, after a minute', {}, 'person'],
    ['a browser, when it is not known when the mail was sent', { seconds: null }, 'person'],
    ['a browser at once', { seconds: 1 }, 'scanner'],
    ['an open at once', { what: 'open', seconds: 3 }, 'person'],
    ['HEAD', { method: 'HEAD' }, 'scanner'],
    ['no user agent', { userAgent: null }, 'scanner'],
    ['curl', { userAgent: 'curl/8.5.0' }, 'scanner'],
    ['a crawler that says so', { userAgent: 'Mozilla/5.0 (compatible; Googlebot/2.1)' }, 'scanner'],
    ['a mail gateway', { userAgent: 'Mozilla/5.0 (Windows NT 10.0) BarracudaSentinel (EE)' }, 'scanner'],
    ['Gmail', { what: 'open', userAgent: GMAIL }, 'proxy'],
    ['Apple, for a picture', { what: 'open', userAgent: 'Mozilla/5.0' }, 'proxy'],
    ['the same, for a link', { userAgent: 'Mozilla/5.0' }, 'scanner'],
  ]
  for (const [what, seen, source] of rows) {
    t.equal(likelySource({ what: 'click', method: 'GET', userAgent: FIREFOX, seconds: 60, ...seen }), source, what)
  }
})

async function told() {
  const made = await world.invite(await world.event())
  const id = newUuid()
  await admin.query(
    `insert into notifications (id, org_id, template, event_id, email, invitation_id, generation)
      select $1, org_id, 'EventInvitation.v1', event_id, email, id, 1 from invitations where id = $2`,
    [id, made.id],
  )
  return { made, id: formatId('notification', id) }
}
const ask = (path: string, userAgent = FIREFOX, method = 'GET') =>
  api.call(undefined, method, path, { headers: { 'user-agent': userAgent } })
const recorded = async (id: string) =>
  (
    await admin.query(
      `select details->>'operation' as what, details->>'source' as source from audit_log
        where action = 'EVENT_INVITE' and resource_id = $1 and details ? 'source' order by id`,
      [id],
    )
  ).rows.map(({ what, source }) => `${what} ${source}`)

t.test('a mail that is opened, and its link that is followed, are recorded, and no token is used up', async (t) => {
  const { made, id } = await told()
  const picture = await ask(`/e/o/${id}`, GMAIL)
  t.strictSame(
    [picture.status, picture.headers.get('content-type'), picture.headers.get('cache-control')],
    [200, 'image/gif', 'no-store'],
  )
  await eventually('a record', async () => (await recorded(made.id)).length === 1)
  t.equal((await world.row(made)).opened_at, null, 'a proxy is no person')
  await ask(`/e/o/${id}`)
  const first = await eventually('a time', async () => (await world.row(made)).opened_at)
  t.equal((await ask(`/e/c/${id}`, FIREFOX, 'HEAD')).status, 302)
  await eventually('three records', async () => (await recorded(made.id)).length === 3)
  t.equal((await world.row(made)).clicked_at, null, 'HEAD is a scanner')
  const click = await ask(`/e/c/${id}`)
  t.strictSame([click.status, click.headers.get('location')], [302, `https://keepsake.example/i/${made.slug}`])
  await eventually('a time', async () => (await world.row(made)).clicked_at)
  await ask(`/e/o/${id}`)
  await eventually('five records', async () => (await recorded(made.id)).length === 5)
  t.strictSame((await recorded(made.id)).sort(), [
    'click person',
    'click scanner',
    'open person',
    'open person',
    'open proxy',
  ])
  t.strictSame((await world.row(made)).opened_at, first, 'the first time stays')
  t.equal((await world.respond(api.people.another, made, { token: made.token })).status, 200)
})

t.test('what cannot be recorded at once is recorded later, with the time at which it was seen', async (t) => {
  const { made, id } = await told()
  let failures = 0
  const failing: Database = {
    ...api.database.db,
    async inTransaction(scope, work) {
      if (failures++ < 2) throw Object.assign(new Error('the database is starting up'), { code: '57P03' })
      return api.database.db.inTransaction(scope, work)
    },
  }
  const log = quietLog()
  const sight = {
    what: 'click',
    method: 'GET',
    context: {
      requestId: newUuid(),
      clientRequestId: null,
      ip: '127.0.0.1',
      userAgent: FIREFOX,
      personalData: testPersonalData(api.database.db),
    },
  } as const
  await recorderOf({ db: failing, log }, [0.2, 0.2, 0.2])(id, sight)
  t.strictSame(await recorded(made.id), ['click person'])
  const { rows } = await admin.query(
    `select a.occurred_at - i.clicked_at >= interval '0.4 s' as late from invitations i, audit_log a
      where i.id = $1 and a.resource_id = i.id::text and a.details ? 'source'`,
    [made.id],
  )
  t.strictSame(rows, [{ late: true }], 'not the time of the last attempt')
  t.equal(failures, 3)
  const other = await told()
  failing.inTransaction = () => Promise.reject(new Error('away'))
  await t.resolves(recorderOf({ db: failing, log }, [0.01])(other.id, sight), 'given up')
  t.strictSame(await recorded(other.made.id), [])
})

t.test('a link leads on while another transaction holds its invitation', async (t) => {
  const { made, id } = await told()
  const lock = { text: 'select from invitations where id = $1 for update', values: [made.id] }
  const click = await whileHeld(api.database, lock, async (holder) => {
    const answer = await ask(`/e/c/${id}`)
    await eventually('the record to wait', async () => (await waitingIn(api.database)) === 1)
    // As a sender that renews the link: the record does not hold the notification while it waits for the invitation.
    await holder.query('select from notifications where id = $1 for update nowait', [parseId('notification', id)])
    return answer
  })
  t.equal(click.status, 302)
  await eventually('the record', async () => (await recorded(made.id)).length === 1)
})

t.test(
  'an id that is not there gets the same picture and no redirect, and one that repeats fills nothing',
  async (t) => {
    for (const id of [formatId('notification', newUuid()), 'x', formatId('media', newUuid())]) {
      t.equal((await ask(`/e/o/${id}`)).status, 200, id)
      const click = await ask(`/e/c/${id}`)
      t.strictSame([click.status, click.headers.get('location')], [404, null], id)
      t.equal(click.code, 'NOT_FOUND')
    }
    // A browser gets a page, whose files are where it says.
    const address = `http://127.0.0.1:${api.port}/v1/e/c/${formatId('notification', newUuid())}`
    const page = await fetch(address, { headers: { accept: 'text/html,*/*;q=0.8' }, redirect: 'manual' })
    t.strictSame([page.status, page.headers.get('content-type')], [404, 'text/html; charset=utf-8'])
    const html = await page.text()
    t.match(html, /There is no such invitation/)
    const files = [...html.matchAll(/(?:src|href)="(\.[^"]+)"/g)].map(([, file = '']) => new URL(file, address))
    t.ok(files.length > 1)
    for (const file of files) t.equal((await fetch(file)).status, 200, file.pathname)
    const { made, id } = await told()
    for (let i = 0; i < 25; i++) await ask(`/e/c/${id}`, 'curl/8')
    await eventually('the records', async () => (await recorded(made.id)).length === 20)
    await ask(`/e/c/${id}`)
    await eventually('a person still counts', async () => (await world.row(made)).clicked_at)
    t.equal((await recorded(made.id)).length, 20)
  },
)
