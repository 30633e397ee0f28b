import { readFile } from 'node:fs/promises'
import t from 'tap'
import { type AppDeps, apiRoutes, internalRoutes } from '../../../api/app.ts'
import { AUDIT_ACTIONS } from '../../../api/audit/queries.ts'
import { describeAudit, SILENT } from '../../support/audit-document.ts'
import { readProducers } from '../../support/audit-producers.ts'

/** Which actions have their producers, read from the source. */
const { sites, silent } = await readProducers()

/** Interface specification §6.3. Erasure brings its own with it. */
const SPECIFIED = `LOGIN LOGOUT TOKEN_REFRESH SESSION_REVOKE EVENT_CREATE EVENT_INVITE EVENT_ACTION EVENT_ACTIVATE
  EVENT_ARCHIVE EVENT_COLD_TIER EVENT_PURGED COMMENT_CREATE COMMENT_DELETE REACTION_CREATE REACTION_DELETE ALBUM_CREATE ALBUM_ACTION MEDIA_UPLOAD
  MEDIA_DELETE MEMBER_INVITE ADMIN_ACTION`.split(/\s+/)

t.test('every action of the specification is known', async (t) => {
  t.strictSame(
    SPECIFIED.filter((action) => !(action in AUDIT_ACTIONS)),
    [],
  )
})

t.test('every action has a producer', async (t) => {
  const produced = new Set<string>(sites.filter(({ producers }) => producers.length > 0).map(({ action }) => action))
  t.strictSame(
    Object.keys(AUDIT_ACTIONS).filter((action) => !produced.has(action)),
    [],
  )
})

t.test('every place that names an action is reached from an operation, a command or the worker', async (t) => {
  t.strictSame(
    sites.filter(({ producers }) => producers.length === 0).map(({ action, file }) => `${action} in ${file}`),
    [],
  )
})

t.test('an operation that changes something writes an entry, or the document says why not', async (t) => {
  const nothing: object = new Proxy({}, { get: () => nothing })
  const routes = [...apiRoutes(nothing as AppDeps, '/v1'), ...internalRoutes(nothing as AppDeps)]
  const changing = new Set(routes.flatMap(({ method, operationId }) => (method === 'get' ? [] : [operationId])))
  t.ok(changing.size > 40)
  t.strictSame(silent.filter((operation) => changing.has(operation)).sort(), Object.keys(SILENT).sort())
})

t.test('docs/audit.md says what the source says', async (t) => {
  t.equal(await readFile('docs/audit.md', 'utf8'), await describeAudit(), 'npm run gen')
})
