import t from 'tap'
import * as z from 'zod'
import { openRefusals } from '../../../api/audit/refusals.ts'
import { sessionActions } from '../../../api/auth/policy.ts'
import { organizationOf } from '../../../api/db/organization-of.ts'
import { sql } from '../../../api/db/orm.ts'
import { mediaActions, uploadActions } from '../../../api/features/media/policy.ts'
import { findMedia } from '../../../api/features/media/queries.ts'
import { inOrganization } from '../../../api/http/in-organization.ts'
import { route } from '../../../api/http/route.ts'
import { cursors } from '../../../api/requests/cursor.ts'
import { found } from '../../../api/requests/found.ts'
import { WithStatus } from '../../../api/requests/request.ts'
import { pathId } from '../../../api/requests/schemas.ts'
import { formatId, newUuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { systemClock } from '../../../lib/runtime/clock.ts'
import { fakeMp4, formOf, startTestApi, uuidOf } from '../../support/api.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { PEOPLE, serveRoutes } from '../../support/serve.ts'

const api = await startTestApi(t)
const { call, people, org, database } = api
const { db, admin } = database
const orgId = uuidOf('organization', org)
const made = await call(people.member, 'POST', `/api/media/${org}/single`, { form: formOf(fakeMp4(100)) })
const media: string = made.data.media_id
const [ann, bob] = [PEOPLE['ann'], PEOPLE['bob']]
for (const person of [ann, bob]) {
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [
    person?.userId,
    'x',
    person?.userId,
  ])
}
await admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [orgId, ann?.userId])

const denials = async (actor: string) =>
  (await admin.query(`select * from audit_log where actor_id = $1 and result = 'denied' order by occurred_at`, [actor]))
    .rows

t.test('a refusal looks like nothing to the client, and like what it is in the audit log', async (t) => {
  const path = `/api/media/${org}/${media}`
  const [stranger, absent] = [
    await call(people.stranger, 'GET', path),
    await call(people.member, 'GET', `/api/media/${org}/${formatId('media', newUuid())}`),
  ]
  t.equal(stranger.status, 404)
  t.strictSame(stranger.body.error.message, absent.body.error.message)
  t.match(await denials(people.stranger.id), [
    {
      action: 'ACCESS_DENIED',
      org_id: orgId,
      resource_type: 'media',
      request_id: stranger.body.error.request_id,
      details: { permission: 'media.read', reason: 'not_a_member' },
    },
  ])
  t.same(await denials(people.member.id), [], 'what is not there was not refused')
})

t.test('a scanner writes one entry, however many organizations and media it tries', async (t) => {
  for (let i = 0; i < 40; i++) {
    const path = `/api/media/${formatId('organization', newUuid())}/${formatId('media', newUuid())}/metadata`
    t.equal((await call(people.stranger, 'GET', path)).status, 404)
  }
  t.equal((await denials(people.stranger.id)).length, 1)
})

t.test('a member is refused what is another’s, with the row that was asked for', async (t) => {
  const json = { filename: 'a.mp4', mime_type: 'video/mp4', file_size_bytes: 10 }
  const upload = (await call(people.member, 'POST', `/api/media/${org}/upload`, { json })).data.upload_id
  const path = `/api/media/${org}/upload/${upload}`
  t.equal((await call(people.another, 'DELETE', path)).status, 404)
  t.match(await denials(people.another.id), [
    { resource_id: uuidOf('upload', upload), details: { permission: 'upload.abort', reason: 'rule_not_met' } },
  ])
  t.equal((await call(people.member, 'DELETE', path)).status, 204)
})

t.test('only the uploader and administrators see the place', async (t) => {
  const manifest = {
    source: { location: { latitude: 1, longitude: 2 }, camera: {}, rotation: 0 },
    hls: { renditions: [] },
  }
  await admin.query('update media set manifest = $2 where id = $1', [uuidOf('media', media), manifest])
  for (const [person, sees] of [
    ['member', true],
    ['admin', true],
    ['owner', true],
    ['another', false],
  ] as const) {
    const { data } = await call(people[person], 'GET', `/api/media/${org}/${media}/metadata`)
    t.equal(data.location !== null, sees, person)
  }
  await admin.query('update media set manifest = null where id = $1', [uuidOf('media', media)])
})

t.test('a platform administrator asks why', async (t) => {
  const root = people.platformAdmin
  const ask = (json: object, who = root) => call(who, 'POST', '/admin/permissions/explain', { json })
  const about = { user_id: people.another.wireId, org_id: org, action: 'media.read_location', resource_id: media }
  t.match(await ask(about), {
    status: 200,
    data: {
      allowed: false,
      reason: 'rule_not_met',
      rule: 'the uploader, or owners and administrators of the organization',
      facts: { role: 'member', uploader: false, organization_admin: false },
    },
  })
  t.match((await ask({ ...about, user_id: people.admin.wireId })).data, { allowed: true, reason: 'allowed' })
  t.match((await ask({ ...about, user_id: people.stranger.id })).data, {
    reason: 'not_a_member',
    facts: { role: null },
  })
  const gone = formatId('media', newUuid())
  t.match((await ask({ ...about, resource_id: gone })).data, { allowed: false, reason: 'no_such_resource' })
  t.match((await ask({ ...about, action: 'media.list', resource_id: null })).data, { allowed: true })
  for (const [change, field] of [
    [{ action: 'media.fly' }, 'body.action'],
    [{ resource_id: undefined }, 'body.resource_id'],
    [{ resource_id: people.member.wireId }, 'body.resource_id'],
  ] as const) {
    t.match(await ask({ ...about, ...change }), { status: 400, body: { error: { details: [{ field }] } } })
  }
  t.equal((await ask(about, people.owner)).status, 404, 'not even the owner of the organization')
  t.match(await denials(people.owner.id), [{ details: { permission: 'permission.explain' } }])
  const { rows } = await admin.query(`select * from audit_log where action = 'ADMIN_ACTION' order by occurred_at`)
  t.equal(rows.length, 5)
  t.match(rows[0], {
    actor_id: root.id,
    resource_id: people.another.id,
    details: { operation: 'explain permission', permission: 'media.read_location', allowed: false, resource: media },
  })
})

t.test('membership that ended while a file was on its way makes no media item, and leaves no object', async (t) => {
  const body = new PassThroughForm()
  const answer = call(people.admin, 'POST', `/api/media/${org}/single`, { bytes: body.stream, headers: body.headers })
  await body.begin()
  while ((await admin.query('select from object_intents')).rowCount === 0) await new Promise((r) => setTimeout(r, 5))
  await admin.query('delete from memberships where user_id = $1', [people.admin.id])
  body.end()
  t.equal((await answer).status, 404)
  t.strictSame((await api.keys()).length, 1, 'only that of the first test')
})

/** A form that can be held half-way. */
class PassThroughForm {
  readonly headers = { 'content-type': 'multipart/form-data; boundary=x' }
  readonly #pipe = new TransformStream<Uint8Array, Uint8Array>()
  readonly stream = this.#pipe.readable
  readonly #writer = this.#pipe.writable.getWriter()
  async begin(): Promise<void> {
    const head = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.mp4"\r\n\r\n'
    await this.#writer.write(Buffer.concat([Buffer.from(head), fakeMp4(20_000)]))
  }
  end(): void {
    void this.#writer.write(Buffer.from('\r\n--x--\r\n')).then(() => this.#writer.close())
  }
}

t.test('requests whose path names no organization find it by the row, and nothing else of it', async (t) => {
  t.equal(await organizationOf(db, 'media', uuidOf('media', media)), orgId)
  t.equal(await organizationOf(db, 'media', newUuid()), undefined)
  const { rows } = await admin.query(
    `select grantee from information_schema.routine_privileges where routine_name = 'organization_of_media'`,
  )
  t.notOk(rows.some((r) => r.grantee === 'PUBLIC'))
  const seen = await db.read({}, (tx) => tx.execute(sql`select id from media`))
  t.equal(seen.rowCount, 0, 'row-level security still hides the row itself')
})

t.test('every table of organizations is guarded the same way', async (t) => {
  const { rows } = await admin.query(`
    select c.relname, c.relrowsecurity and c.relforcerowsecurity as forced,
      has_table_privilege('keepsake_api', c.oid, 'select') as shown,
      (select array_agg(p.polname::text order by p.polname) from pg_policy p where p.polrelid = c.oid) as policies
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'org_id' and not a.attisdropped
    where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace`)
  t.ok(rows.length >= 6)
  for (const { relname, forced, shown, policies } of rows) {
    t.ok(forced, relname)
    // Its rules are its own: test/api/audit/rights.ts.
    if (relname.startsWith('audit_')) continue
    // An export of an event is the person's who asked for it, and outlives membership.
    const scope = relname === 'data_exports' ? 'own' : 'tenant'
    t.ok((!shown || policies.includes(scope)) && policies.includes('worker'), `${relname}: ${policies}`)
  }
})

t.test('guard_tenant guards a new table', async (t) => {
  await admin.query(`create table stickers (id uuid primary key, org_id uuid not null);
    select guard_tenant('stickers'); select make_organization_lookup('stickers');
    grant select, insert on stickers to keepsake_api`)
  const id = newUuid()
  const other = newUuid()
  await db.inTransaction({ org: orgId }, (tx) => tx.execute(sql`insert into stickers values (${id}, ${orgId})`))
  await t.rejects(
    db.inTransaction({ org: orgId }, (tx) => tx.execute(sql`insert into stickers values (${newUuid()}, ${other})`)),
  )
  const count = async (scope: object) => (await db.read(scope, (tx) => tx.execute(sql`select from stickers`))).rowCount
  t.strictSame([await count({ org: orgId }), await count({ org: other }), await count({})], [1, 0, 0])
  const { rows } = await db.read({}, (tx) => tx.execute(sql`select organization_of_stickers(${id}) as org`))
  t.equal(rows[0]?.['org'], orgId)
})

const refusals = openRefusals({ db, log: quietLog() })
const kit = inOrganization({ db, refusals, cursors: cursors('secret', systemClock), actionsOn: () => [] })
const common = { tags: ['Test'], summary: 'For tests' }
const One = z.object({ org_id: pathId('organization'), media_id: pathId('media') })
const Shown = z.object({ id: z.string() })
const handled: string[] = []
const server = await serveRoutes(
  t,
  [
    kit.read({
      ...common,
      method: 'get',
      path: '/forgetful/{org_id}/{media_id}',
      operationId: 'forgetful',
      action: mediaActions.read,
      params: One,
      response: Shown,
      handle: async ({ tx, orgId: org, params }) => ({ id: found(await findMedia(tx, org, params.media_id)).id }),
    }),
    kit.read({
      ...common,
      method: 'get',
      path: '/slow/{org_id}/{media_id}',
      operationId: 'slow',
      action: mediaActions.read,
      params: One,
      response: Shown,
      // Several queries, one after the other: membership must be known before the first decision.
      async handle({ tx, orgId: org, params, permit, member }) {
        const row = permit(found(await findMedia(tx, org, params.media_id)))
        await tx.execute(sql`select 1`)
        return { id: `${row.id} ${(await member)?.role}` }
      },
    }),
    kit.write({
      ...common,
      method: 'post',
      path: '/written/{org_id}/{media_id}',
      operationId: 'written',
      action: uploadActions.abort,
      isOpen: true,
      problems: ['FORBIDDEN'],
      params: One,
      status: 201,
      response: Shown,
      async handle({ params, permit, audit }) {
        permit({ uploaderId: params.media_id === newest ? (ann?.userId ?? '') : newUuid() })
        handled.push(params.media_id)
        await audit('MEDIA_UPLOAD', { id: params.media_id })
        return new WithStatus(200, { id: String(handled.length) })
      },
    }),
    kit.write({
      ...common,
      method: 'put',
      path: '/by-row',
      operationId: 'byRow',
      action: mediaActions.list,
      problems: ['NOT_FOUND'],
      params: z.object({}),
      body: z.object({ media_id: z.string() }),
      organization: { of: 'media', id: ({ body }) => body.media_id },
      status: 200,
      response: Shown,
      handle: async ({ orgId: org }) => ({ id: org }),
    }),
    route({
      ...common,
      method: 'get',
      path: '/undeclared',
      operationId: 'undeclared',
      action: sessionActions.endAll,
      status: 204,
      async handle() {
        throw new Problem('CONFLICT', 'not in the document')
      },
    }),
  ],
  { db },
)
t.teardown(() => refusals.close())
const newest = newUuid()
const asAnn = { authorization: 'Bearer ann' }
const asBob = { authorization: 'Bearer bob' }

t.test('an answer without a decision, and a problem that is not declared, are errors', async (t) => {
  const forgotten = await server.ask({ path: `/forgetful/${org}/${media}`, headers: asAnn })
  t.match([forgotten.status, forgotten.json.error.code], [500, 'INTERNAL_ERROR'])
  t.ok(server.logged.some((line) => JSON.stringify(line).includes('without a decision on media.read')))
  t.equal((await server.ask({ path: '/undeclared', headers: asAnn })).status, 500)
  t.ok(server.logged.some((line) => JSON.stringify(line).includes('undeclared does not declare CONFLICT')))
})

t.test('a read may ask several times, and to a stranger there is nothing either way', async (t) => {
  const path = `/slow/${org}/${media}`
  const mine = await server.ask({ path, headers: asAnn })
  t.match([mine.status, mine.json.data?.id], [200, `${uuidOf('media', media)} member`])
  t.equal((await server.ask({ path, headers: asBob })).status, 404)
})

t.test('a write decides on its row, remembers with its own status, and does nothing when refused', async (t) => {
  const path = (id: string) => `/written/${org}/${id}`
  const post = (id: string, key: string, headers = asAnn) =>
    server.ask({ method: 'POST', path: path(id), headers: { ...headers, 'idempotency-key': key } })
  const refused = await post(newUuid(), 'w1')
  t.match([refused.status, refused.json.error.code], [403, 'FORBIDDEN'], 'where the route says so')
  t.equal((await post(newest, 'w2', asBob)).status, 404, 'a stranger learns nothing all the same')
  t.strictSame(handled, [])
  const kept = await admin.query(`select from idempotency_keys where key in ('w1', 'w2')`)
  t.equal(kept.rowCount, 0, 'nothing is stored for refusals')
  const [first, again] = [await post(newest, 'w3'), await post(newest, 'w3')]
  t.strictSame([first.status, first.json.data, again.status, again.json.data], [200, { id: '1' }, 200, { id: '1' }])
  t.equal(again.headers['idempotency-replayed'], 'true')
  t.strictSame(handled, [newest])
})

t.test('the organization of a row is enough for members and nothing for strangers', async (t) => {
  const put = (media_id: string, headers = asAnn) =>
    server.ask({ method: 'PUT', path: '/by-row', headers, body: { media_id } })
  t.equal((await put(uuidOf('media', media))).json.data.id, orgId)
  t.equal((await put(uuidOf('media', media), asBob)).status, 404)
  t.equal((await put(newUuid())).status, 404)
})
