import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { parseId } from '../../lib/contract/ids.ts'
import { type Answer, type Person, startTestApi } from '../support/api.ts'
import { aSociety, type Society, shape } from '../support/random-society.ts'

/**
 * Of any users, organizations, events and invitations, each user sees exactly what the rules show them, and no id, name,
 * text or number of anything else is anywhere in an answer.
 */
const api = await startTestApi(t)

interface Question {
  who: Person | undefined
  path: string
  /** What the answer has to say; undefined where there is nothing for this caller. */
  want: object | undefined
}
type User = Society['users'][number]
type List = Record<string, unknown> | undefined

/** Every operation that reads, asked by one user about everything there is. `limit` is the size of the pages. */
function questionsOf(society: Society, who: User, limit: number): Question[] {
  const { users, organizations, events } = society
  const ask = (path: string, want: object | undefined): Question => ({ who, path, want })
  const askForPage = (path: string, name: string, list: List, query = '') => {
    const all = (list?.[name] ?? []) as unknown[]
    const page = list && { ...list, [name]: all.slice(0, limit), has_more: all.length > limit }
    return ask(`${path}?limit=${limit}${query}`, page)
  }

  const ofUsers = () => [
    ask('/api/users/me', society.me(who)),
    askForPage('/api/users/me/connected-members', 'members', society.connected(who)),
    ...users.map((other) => ask(`/api/users/${other.id}/connections`, society.connection(who, other))),
  ]
  const ofOrganization = (organization: Society['organizations'][number]) => {
    const members = `/api/organizations/${organization.id}/members`
    const list = `/api/orgs/${organization.wireId}/events`
    const everyone = society.membersOf(who, organization)
    const someone = users.at(-1)
    const searched = society.membersOf(who, organization, (other) => other === someone)
    return [
      askForPage(members, 'members', everyone),
      askForPage(members, 'members', everyone, '&query=name'),
      askForPage(members, 'members', searched, `&query=${someone?.name}`),
      askForPage(list, 'events', society.eventsIn(who, organization)),
      askForPage(list, 'events', society.eventsIn(who, organization, 'draft'), '&status=draft'),
    ]
  }
  const ofEvent = (event: Society['events'][number]) => {
    const at = (of: { wireId: string }) => `/api/orgs/${of.wireId}/events/${event.wireId}`
    const here = at(event.organization)
    const elsewhere = organizations.filter((one) => one !== event.organization).slice(0, 1)
    return [
      ask(here, society.event(who, event)),
      askForPage(`${here}/participants`, 'participants', society.participants(who, event)),
      askForPage(`${here}/invitations`, 'invitations', society.invitations(who, event)),
      ...elsewhere.flatMap((other) =>
        ['', '/participants', '/invitations'].map((what) => ask(`${at(other)}${what}`, undefined)),
      ),
    ]
  }
  return [...ofUsers(), ...organizations.flatMap(ofOrganization), ...events.flatMap(ofEvent)]
}

/** By slug, without signing in. */
const publicQuestionsOf = (society: Society): Question[] =>
  society.events.flatMap((event) =>
    event.invitations.map((one) => ({
      who: undefined,
      path: `/api/invitations/by-slug/${one.slug}`,
      want: society.bySlug(event, one),
    })),
  )

/** What the answer says of all that the model knows about; times and the like are left out. */
function said(given: unknown, want: unknown): unknown {
  if (Array.isArray(given) && Array.isArray(want)) return given.map((one, n) => said(one, want[n]))
  if (!isObject(given) || !isObject(want)) return given
  return Object.fromEntries(Object.keys(want).map((key) => [key, said(given[key], want[key])]))
}
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

/** The marks in the text of an answer, and in what its cursor holds. */
function marksIn({ body }: Answer, marks: readonly string[]): string[] {
  const cursor = String(body.data?.next_cursor ?? '').replace(/^cursor_/, '')
  const text = `${JSON.stringify(body)} ${Buffer.from(cursor, 'base64url').toString('latin1')}`.toLowerCase()
  return marks.filter((mark) => text.includes(mark.toLowerCase()))
}

const KINDS = ['user', 'organization', 'event', 'invitation'] as const
/** Cursors name rows by their bare ids. */
const withBareIds = (text: string) => [text, ...(text.match(/\b[a-z]{3}_[0-9a-z]{26}\b/g) ?? []).map(bareId)].join(' ')
const bareId = (id: string) => KINDS.map((kind) => parseId(kind, id)).find((uuid) => uuid !== undefined)

async function check({ marks }: Society, { who, path, want }: Question): Promise<void> {
  const answer = await api.call(who, 'GET', path)
  const asked = `${who?.id ?? 'nobody'} asks for ${path}`
  const given = [asked, answer.status, said(answer.data, want)]
  assert.deepStrictEqual(given, want ? [asked, 200, want] : [asked, 404, undefined])
  const known = withBareIds(JSON.stringify(want ?? {}))
  const foreign = marksIn(answer, marks).filter((mark) => !known.includes(mark))
  assert.deepStrictEqual([asked, foreign], [asked, []])
}

t.test('each user sees exactly what is shared with them', async (t) => {
  let asked = 0
  await fc.assert(
    fc.asyncProperty(shape, fc.constantFrom(1, 2, 50), async (given, limit) => {
      const society = await aSociety(api, given)
      const questions = [
        ...society.users.flatMap((user) => questionsOf(society, user, limit)),
        ...publicQuestionsOf(society),
      ]
      asked += questions.length
      while (questions.length > 0) await Promise.all(questions.splice(0, 8).map((one) => check(society, one)))
    }),
    { numRuns: 20 },
  )
  t.ok(asked > 0, `${asked} answers`)
})
