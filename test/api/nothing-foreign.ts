import assert from 'node:assert/strict'
import { glob } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import type { AppDeps } from '../../api/app.ts'
import { CATALOG, FEATURES } from '../../api/features.ts'
import { type IdKind, PREFIXES, parseId } from '../../lib/contract/ids.ts'
import { type Answer, type Person, startTestApi } from '../support/api.ts'
import { pathFor } from '../support/route-table.ts'
import { aSociety, isMember, type Part, type Question, type Society, type User } from '../support/society.ts'

/**
 * Of anything that there is in a society, each user sees exactly what the rules show them, and no id, name, text or
 * number of anything else is anywhere in an answer. Every operation of every feature that reads is asked.
 */
const api = await startTestApi(t)

const parts: Part[] = []
for await (const file of glob('features/*/society.ts', { cwd: import.meta.dirname })) {
  const { part } = (await import(join(import.meta.dirname, file))) as { part: Part }
  parts.push(part)
}

// Making the list touches none of the dependencies.
const nothing: object = new Proxy({}, { get: () => nothing })
const READS = FEATURES.flatMap(({ routes }) => routes(nothing as AppDeps, CATALOG)).filter(
  ({ method }) => method === 'get',
)

interface Asked extends Question {
  who: (Person & { name: string }) | undefined
}
const administrator = { ...api.people.platformAdmin, name: 'the platform administrator' }
/** By operationId: how often there was something to see, and how often nothing; and the queries. */
const asked = new Map(
  READS.map(({ operationId }) => [operationId, { shown: 0, hidden: 0, queries: new Set<string>() }]),
)

/** In another organization of the same user, nothing of this one is there. */
function elsewhere(society: Society, { who, ...question }: Asked & { who: User }): Asked[] {
  const { org_id: here, ...others } = question.params ?? {}
  if (!here || !question.want || Object.keys(others).length === 0) return []
  const there = society.organizations.find((one) => one.wireId !== here && isMember(society, who, one))
  return there ? [{ ...question, who, params: { ...others, org_id: there.wireId }, want: undefined }] : []
}

function questionsOf(society: Society): Asked[] {
  const ofUsers = society.users.flatMap((who) =>
    parts.flatMap(({ ask }) => ask?.(society, who).map((one) => ({ ...one, who })) ?? []),
  )
  const ofNobody = parts.flatMap(({ askAsNobody }) => askAsNobody?.(society) ?? [])
  const ofAdministrator = parts.flatMap(({ askAsAdministrator }) => askAsAdministrator?.(society) ?? [])
  return [
    ...ofUsers,
    ...ofUsers.flatMap((one, n) => (n % 3 === 0 ? elsewhere(society, one) : [])),
    ...ofNobody.map((one) => ({ ...one, who: undefined })),
    ...ofAdministrator.map((one) => ({ ...one, who: administrator })),
  ]
}

/** What the answer says of all that the model knows about: times and the like are left out, links are what they open. */
function said(given: unknown, want: unknown): unknown {
  if (typeof given === 'string') return given.replace(/^https:\/\/keepsake\.example(?:\/v1)?\/d\/[^/]+\//, '')
  if (Array.isArray(given) && Array.isArray(want)) return given.map((one, n) => said(one, want[n]))
  if (!isObject(given) || !isObject(want)) return given
  return Object.fromEntries(Object.keys(want).map((key) => [key, said(given[key], want[key])]))
}
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

const ID = /(?<![a-z0-9])[a-z]{3}_[0-9a-z]{26}(?![0-9a-z])|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi
const KINDS = Object.fromEntries(Object.entries(PREFIXES).map(([kind, prefix]) => [prefix, kind as IdKind]))
const uuidOf = (id: string) => (id[3] === '_' ? parseId(KINDS[id.slice(0, 3)] as IdKind, id) : id.toLowerCase())
/** All ids, whatever they are of and however they are spelled. All texts of a society contain one. */
const idsIn = (text: string) => new Set((text.match(ID) ?? []).filter((id) => !id.startsWith('req_')).map(uuidOf))

/** What is in the text of an answer, or in what its cursor holds, besides what is wanted. */
function foreignIn({ marks }: Society, { body }: Answer, want: object | undefined): unknown[] {
  const cursor = String(body.data?.next_cursor ?? '').replace(/^cursor_/, '')
  const json = Buffer.isBuffer(body) ? body.toString('latin1') : JSON.stringify(body)
  const text = `${json} ${Buffer.from(cursor, 'base64url').toString('latin1')}`
  const wanted = JSON.stringify(want ?? {})
  const known = idsIn(wanted)
  const inCapitals = text.toUpperCase()
  const foreign = marks.filter((mark) => inCapitals.includes(mark) && !wanted.includes(mark))
  return [...foreign, ...[...idsIn(text)].filter((id) => !known.has(id))]
}

/** The data of an answer; of a file, its text and type. */
const dataOf = ({ body, data, status, headers }: Answer) =>
  Buffer.isBuffer(body) && status < 400 ? { text: body.toString('latin1'), type: headers.get('content-type') } : data

const routes = new Map(READS.map((route) => [route.operationId, route]))

/** Asks, and resolves with the cursor of the next page. */
async function check(
  society: Society,
  { who, route: name, params = {}, query = {}, want, says }: Asked,
): Promise<string> {
  const route = routes.get(name)
  if (!route) throw new Error(`${name} is no operation of a feature that reads`)
  const path = pathFor(route, { params, query })
  const answer = await api.call(who, 'GET', path)
  const known = asked.get(name)
  if (known) known[want ? 'shown' : 'hidden'] += 1
  for (const key of Object.keys(query)) known?.queries.add(key)
  const text = `${who?.name ?? 'nobody'} asks ${name}: ${path}`
  assert.deepStrictEqual([text, answer.status, said(dataOf(answer), want)], [text, want ? route.status : 404, want])
  assert.deepStrictEqual([text, foreignIn(society, answer, { ...want, says })], [text, []])
  return answer.data?.next_cursor ?? ''
}

const LIMITS = [1, 1, 2, 1, 1, 50]

/** A list in two pages. */
async function checkAll(society: Society, question: Asked, limit = 1): Promise<void> {
  const { list, want, query } = question
  if (!list) return void (await check(society, question))
  const all = ((want as Record<string, unknown> | undefined)?.[list] ?? []) as unknown[]
  const page = (from: number, to: number, more: Record<string, string>) =>
    check(society, {
      ...question,
      query: { ...query, ...more },
      want: want && { ...want, [list]: all.slice(from, to), has_more: all.length > to },
    })
  const cursor = await page(0, limit, { limit: String(limit) })
  if (all.length > limit) await page(limit, 100, { limit: '100', cursor })
}

const seesItsOwn = (isAsked: (operationId: string) => boolean) =>
  fc.asyncProperty(fc.gen(), async (g) => {
    const society = await aSociety(api, g, parts)
    const questions = questionsOf(society)
      .filter(({ route }) => isAsked(route))
      .map((one, n) => () => checkAll(society, one, LIMITS[n % LIMITS.length]))
    while (questions.length > 0) await Promise.all(questions.splice(0, 8).map((ask) => ask()))
  })
/** Each run of the tests asks other societies. */
const SOCIETIES = { least: 5, most: 20 }

t.test('each user sees exactly what is shared with them', async () => {
  // A smaller society that fails as well says no more than the question does.
  const ofSocieties = (numRuns: number, isAsked: (operationId: string) => boolean) =>
    fc.assert(seesItsOwn(isAsked), { numRuns, endOnFailure: true })
  await ofSocieties(SOCIETIES.least, () => true)
  // Where these had not everything, more of them are asked for that alone.
  for (let n = SOCIETIES.least; n < SOCIETIES.most; n++) {
    const lacking = new Set(READS.filter((one) => lacksOf(one).length > 0).map(({ operationId }) => operationId))
    if (lacking.size === 0) break
    await ofSocieties(1, (operationId) => lacking.has(operationId))
  }
})

/** How an operation was not asked yet. */
function lacksOf({ operationId, params, query }: (typeof READS)[number]): string[] {
  const { shown = 0, hidden = 0, queries } = asked.get(operationId) ?? {}
  // What has nothing in its path is there for everyone, and the picture of a mail is the same for any id.
  const canHide = params !== undefined && operationId !== 'recordOpen'
  return [
    ...(shown > 0 ? [] : ['with something to see']),
    ...(canHide && hidden === 0 ? ['with nothing there for the caller'] : []),
    ...Object.keys(query?.shape ?? {}).filter((name) => !queries?.has(name)),
  ]
}

for (const route of READS) {
  t.test(`${route.operationId} was asked with something to see, with nothing, and with each parameter`, async (t) =>
    t.strictSame(lacksOf(route), []),
  )
}
