import t from 'tap'
import { INTERNAL_AUDIENCE } from '../../../../api/auth/services.ts'
import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { startTestApi, uuidOf } from '../../../support/api.ts'
import { ask } from '../../../support/ask.ts'
import { anEvent } from '../../../support/events.ts'
import { startTestIdentity } from '../../../support/identity.ts'

const cluster = await startTestIdentity(t)
const service = 'system:serviceaccount:keepsake:importer'
const api = await startTestApi(t, {
  settings: {
    INTERNAL_AUTH_ISSUER: cluster.issuer,
    INTERNAL_AUTH_JWKS_URL: cluster.jwksUrl,
    INTERNAL_AUTH_SUBJECTS: service,
  },
})
const internal = Number(new URL(api.internalUrl).port)
const token = await cluster.token({ sub: service, claims: { aud: [INTERNAL_AUDIENCE] }, header: { typ: undefined } })
const headers = { authorization: `Bearer ${token}` }
const { member } = api.people
const event = await anEvent(api, {
  org: api.org,
  orgId: uuidOf('organization', api.org),
  owner: member,
  status: 'active',
})

const item = (more: object = {}) => ({
  type: 'event_created',
  actor_id: member.wireId,
  org_id: api.org,
  ref_type: 'event',
  ref_id: event.wireId,
  summary: 'Found in an old box',
  created_at: '2020-01-02T03:04:05.000Z',
  dedupe_key: newUuid(),
  ...more,
})
const post = (body: unknown) => ask(internal, { method: 'POST', path: '/api/timeline', headers, body })
const hide = (id: string) => ask(internal, { method: 'DELETE', path: `/api/timeline/${id}`, headers })
const shown = async () => {
  const { data } = await api.call(member, 'GET', `/api/orgs/${api.org}/timeline`)
  return (data.items as { summary: string; timeline_item_id: string }[]).filter(
    ({ summary }) => summary === 'Found in an old box',
  )
}

t.test('a service inserts an item, once for each key, and hides it', async (t) => {
  const body = item()
  const [first, again] = [await post(body), await post(body)]
  t.match([first.status, again.status], [201, 200])
  const id = first.json.data.timeline_item_id
  t.match(id, /^tli_/)
  t.equal(again.json.data.timeline_item_id, id)
  t.equal((await shown()).length, 1)
  const other = await post(item({ org_id: api.otherOrg, dedupe_key: body.dedupe_key }))
  t.match([other.status, other.json?.error.code], [404, 'NOT_FOUND'], 'an event of another organization')
  t.strictSame([(await hide(id)).status, (await hide(id)).status], [204, 204])
  t.equal((await shown()).length, 0)
  t.equal((await post(body)).status, 200, 'a late repeat does not bring it back')
  t.equal((await shown()).length, 0)
  t.equal((await hide(formatId('timelineItem', newUuid()))).status, 404)
})

t.test('an item about a membership is shown, whatever time the service says', async (t) => {
  const joined = item({ type: 'member_joined', ref_type: 'user', ref_id: member.wireId, actor_id: member.wireId })
  t.equal((await post(joined)).status, 201)
  t.equal((await shown()).length, 1)
  t.equal((await post(item({ ...joined, created_at: undefined, dedupe_key: newUuid() }))).status, 201)
  t.equal((await shown()).length, 2)
})

t.test('refuses what is no item', async (t) => {
  const wrong: [object, field: string][] = [
    [{ type: 'nonsense' }, 'body.type'],
    [{ actor_id: 'nonsense' }, 'body.actor_id'],
    [{ ref_id: api.org }, 'body.ref_id'],
    // They would never be shown.
    [{ type: 'member_joined' }, 'body.ref_id'],
    [{ type: 'member_joined', ref_type: 'user', ref_id: api.people.admin.wireId }, 'body.ref_id'],
    [{ summary: 'x'.repeat(201) }, 'body.summary'],
    [{ created_at: 'yesterday' }, 'body.created_at'],
    [{ created_at: new Date(Date.now() + 120_000).toISOString() }, 'body.created_at'],
    [{ dedupe_key: '' }, 'body.dedupe_key'],
  ]
  for (const [more, field] of wrong) {
    const { status, json } = await post(item(more))
    t.match([status, json.error.code, json.error.details[0].field], [400, 'VALIDATION_ERROR', field])
  }
  t.equal((await post('x'.repeat(300_000))).status, 415)
  t.equal((await post({ pad: 'x'.repeat(300_000) })).status, 413)
})

t.test('is there for services only, and on the internal port only', async (t) => {
  const body = item()
  const path = '/api/timeline'
  for (const authorization of [undefined, `Bearer ${member.token}`]) {
    const given = authorization ? { authorization } : {}
    t.equal((await ask(internal, { method: 'POST', path, headers: given, body })).status, 401)
  }
  for (const prefix of ['', '/v1']) {
    for (const authorization of [headers.authorization, `Bearer ${member.token}`]) {
      const there = { path: `${prefix}${path}`, headers: { authorization } }
      t.equal((await ask(api.port, { ...there, method: 'POST', body })).status, 404, there.path)
      const one = { ...there, path: `${there.path}/${formatId('timelineItem', newUuid())}` }
      t.equal((await ask(api.port, { ...one, method: 'DELETE' })).status, 404, one.path)
    }
  }
  t.equal((await ask(api.port, { path: '/v1/api/users/me', headers })).status, 401, 'nor is its token one of a user')
  t.equal((await ask(internal, { path: '/v1/api/users/me', headers })).status, 404)
  t.equal((await ask(internal, { path: '/livez' })).status, 200, 'the probes are there as ever')
})
