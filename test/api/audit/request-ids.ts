import t from 'tap'
import { formatId, newUuid } from '../../../lib/contract/ids.ts'
import { startTestApi } from '../../support/api.ts'
import { matchWhole } from '../../support/match-whole.ts'
import { testPersonalData } from '../../support/personal-data.ts'

/** Whose ids the log and the audit log hold: a client names its requests for itself, never for the server. */
const api = await startTestApi(t)
const { people, org, call } = api

const personalData = testPersonalData(api.database.db)
/** The client's id is kept with the address, under the key of the person. */
async function auditedOf(requestId: string | null) {
  const { rows } = await api.database.admin.query(
    `select action, id as "entryId", actor_id as "personId", personal, key_version as "keyVersion"
      from audit_log where request_id = $1 and client_request_id is null`,
    [requestId],
  )
  const opened = await personalData.decrypt(rows)
  return rows.map(({ action }, i) => {
    const box = opened[i]
    return { action, client_request_id: (box?.state === 'open' && box.personal.details?.['client_request_id']) || null }
  })
}
const loggedOf = (requestId: string | null) => api.logged.filter((line) => line['request_id'] === requestId)

async function createEvent(id: string, who = people.member) {
  const json = { title: 'A day out', start_at: '2026-11-21T09:30:00Z' }
  const answer = await call(who, 'POST', `/api/orgs/${org}/events`, { json, headers: { 'x-request-id': id } })
  return { ...answer, requestId: answer.headers.get('x-request-id') }
}

t.test(
  'two requests under one id of a client are two in log and audit, each with that id beside its own',
  async (t) => {
    // One that has the form of this server's ids: it could be another request's.
    const claimed = formatId('request', newUuid())
    const [first, second] = [await createEvent(claimed), await createEvent(claimed)]
    t.equal(new Set([first.requestId, second.requestId, claimed]).size, 3)
    for (const { requestId, status, body } of [first, second]) {
      t.equal(status, 201)
      t.equal(body.meta.request_id, requestId)
      t.strictSame(await auditedOf(requestId), [{ action: 'EVENT_CREATE', client_request_id: claimed }])
      const lines = loggedOf(requestId)
      t.match(lines.at(-1), { msg: 'request', status: 201 })
      t.ok(lines.every((line) => line['client_request_id'] === claimed))
    }
    t.strictSame([await auditedOf(claimed), loggedOf(claimed)], [[], []])
  },
)

t.test('a refusal is recorded in the same way', async (t) => {
  const { status, body, requestId } = await createEvent('retry-1', people.stranger)
  t.strictSame([status, body.error.request_id], [404, requestId])
  t.strictSame(await auditedOf(requestId), [{ action: 'ACCESS_DENIED', client_request_id: 'retry-1' }])
})

t.test('what is too long for an id, or is none, is kept nowhere', async (t) => {
  const most = 'x'.repeat(128)
  matchWhole(t, await auditedOf((await createEvent(most)).requestId), [{ client_request_id: most }])
  const bad = ['', 'x'.repeat(129), 'ann@example.org', 'two words', 'a,b', '"a"', '<b>', 'caf\xe9', '{"level":50}']
  for (const id of bad) {
    const { status, requestId } = await createEvent(id)
    t.equal(status, 201, id)
    t.strictSame(await auditedOf(requestId), [{ action: 'EVENT_CREATE', client_request_id: null }], id)
    t.notOk(
      loggedOf(requestId).some((line) => 'client_request_id' in line),
      id,
    )
  }
})
