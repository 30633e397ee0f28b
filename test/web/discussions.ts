import t from 'tap'
import { EMOJIS } from '../../api/features/reaction-counts/emoji.ts'
import { formatId, newUuid } from '../../lib/contract/ids.ts'

/** What the page makes of comments and reactions: no browser is needed for these. */

const load = (name: string) => import(new URL(`../../web/discussions/${name}.js`, import.meta.url).href)
const comments = await load('words')
const drafts = await load('drafts')

const NOW = Date.parse('2027-05-08T12:00:00Z')
const minutesAgo = (minutes: number) => new Date(NOW - minutes * 60_000).toISOString()

t.test('a comment that is gone stands where it was, if something below it is not sent', async (t) => {
  const at = (id: string, minutes: number) => ({
    comment_id: id,
    created_at: minutesAgo(minutes),
    body: 'x',
    target: { type: 'meta' },
    can: ['comment.edit', 'comment.delete'],
  })
  const list = [at('c', 1), at('a', 3)]
  const shown = comments.withGone(list, false, [at('b', 2), at('b', 2), at('c', 1)])
  t.equal(shown.map((c: { comment_id: string }) => c.comment_id).join(''), 'cba')
  t.match(shown[1], { deleted: true, body: '', can: [] })
  t.equal(shown[0], list[0], 'what is there stays as it is')
  t.equal(comments.withGone(list, true, [at('old', 9)]).length, 2, 'further pages may have it')
  t.equal(comments.withGone(list, false, [at('old', 9)]).length, 3)
  t.strictSame(comments.withGone([], false, []), [])
})

t.test('what is unsent is kept by discussion until it is sent or forgotten', async (t) => {
  drafts.keepDraft('/one', 'new', { text: 'a' })
  drafts.keepDraft('/one', 'edit cmt_1', { text: 'b' })
  drafts.keepDraft('/two', 'new', { text: 'c' })
  drafts.keepDraft('/three', 'new')
  t.strictSame(['/one', '/two', '/three'].map(drafts.hasUnsent), [true, true, false])
  t.strictSame(drafts.draftOf('/one', 'new'), { text: 'a' })
  t.strictSame(drafts.draftsIn('/one'), [{ text: 'a' }, { text: 'b' }])
  drafts.keepDraft('/one', 'new')
  t.ok(drafts.hasUnsent('/one'), 'the other one')
  drafts.keepDraft('/one', 'edit cmt_1')
  t.notOk(drafts.hasUnsent('/one'))
  drafts.forgetUnsent()
  t.notOk(drafts.hasUnsent('/two'))
})

t.test('what is on its way is not unsent, and its repeat has the same key', async (t) => {
  const keys: string[] = []
  const sent = (body: string, answer: Promise<unknown>) =>
    drafts.sendDraft('/one', 'new', {
      draft: drafts.draftOf('/one', 'new') ?? { text: body },
      body: { body },
      send: (key: string) => {
        keys.push(key)
        return answer
      },
    })
  const { promise: lost, reject: lose } = Promise.withResolvers<void>()
  const first = sent('a', lost)
  t.notOk(drafts.hasUnsent('/one'))
  t.equal(drafts.underwayAt('/one', 'new'), first, 'for a form that is opened meanwhile')
  t.match(drafts.draftOf('/one', 'new'), { text: 'a' }, 'and for a reload')
  drafts.keepDraft('/one', 'reply cmt_1', { text: 'b' })
  t.ok(drafts.hasUnsent('/one'), 'something else')
  drafts.keepDraft('/one', 'reply cmt_1')
  lose(new Error('lost'))
  await t.rejects(first, /lost/)
  t.ok(drafts.hasUnsent('/one'))
  t.equal(drafts.underwayAt('/one', 'new'), undefined)
  await t.rejects(sent('changed', Promise.reject(new Error('lost'))), /lost/)
  await t.rejects(sent('changed', Promise.reject(new Error('lost'))), /lost/)
  await sent('changed', Promise.resolve())
  t.equal(new Set(keys).size, 2, 'one for each text')
  t.equal(new Set(keys.slice(1)).size, 1)
  t.equal(drafts.draftOf('/one', 'new'), undefined)
  const { promise: late, resolve: answer } = Promise.withResolvers<void>()
  const last = sent('changed', late)
  t.equal(new Set(keys).size, 3, 'another comment')
  drafts.forgetUnsent()
  drafts.keepDraft('/one', 'new', { text: 'of another person' })
  answer()
  await last
  t.match(drafts.draftOf('/one', 'new'), { text: 'of another person' })
  drafts.forgetUnsent()
})

t.test('what is unsent outlives a reload of the tab and the session, for the person who wrote it', async (t) => {
  const entries = new Map<string, string>()
  const sessionStorage = {
    getItem: (key: string) => entries.get(key) ?? null,
    setItem: (key: string, text: string) => void entries.set(key, text),
    removeItem: (key: string) => void entries.delete(key),
  }
  t.intercept(globalThis, 'sessionStorage', { value: sessionStorage })
  let reloads = 0
  const reload = async (userId: string) => {
    const tab = await import(`${new URL('../../web/discussions/drafts.js', import.meta.url).href}?${++reloads}`)
    tab.openUnsentOf(userId)
    return tab
  }
  const draft = { text: '@Ann', chosen: new Map([['@Ann', 'usr_1']]), media: [{ media_id: 'med_1' }] }
  const tab = await reload('ann')
  tab.keepDraft('/one', 'new', draft)
  tab.openUnsentOf('ann')
  t.strictSame(tab.draftOf('/one', 'new'), draft, 'in the next session of its author')
  t.strictSame((await reload('ann')).draftOf('/one', 'new'), draft)
  tab.openUnsentOf('bob')
  t.notOk(tab.hasUnsent('/one'), 'of another person')
  t.notOk((await reload('ann')).hasUnsent('/one'), 'who has left nothing of it')
  const last = await reload('ann')
  last.keepDraft('/one', 'new', draft)
  last.forgetUnsent()
  t.notOk((await reload('ann')).hasUnsent('/one'), 'once its author has signed out here')
})

t.test('when a comment was written', async (t) => {
  const rows: [number, string][] = [
    [-1, 'just now'],
    [0.9, 'just now'],
    [1, '1 min ago'],
    [59.9, '59 min ago'],
    [60, '1 h ago'],
    [24 * 60, '1 day ago'],
    [6 * 24 * 60, '6 days ago'],
    [8 * 24 * 60, '30 April 2027'],
  ]
  for (const [minutes, wanted] of rows) {
    t.equal(comments.ago(minutesAgo(minutes), NOW, { locale: 'en-GB', timeZone: 'UTC' }), wanted)
  }
})

const ANN = newUuid()
const BOB = newUuid()
const names = (id: string) => ({ [ANN]: 'Ann Example', [BOB]: 'Bob' })[id]

t.test('mentions are shown as names, in both forms of an id; everything else stays text', async (t) => {
  const pieces = (body: string, mentions = [formatId('user', ANN), formatId('user', BOB)]) =>
    comments
      .piecesOf({ body, mentions })
      .map(({ text, id }: { text?: string; id?: string }) => (id ? `[${names(id)}]` : text))
      .join('')
  const rows: [string, string][] = [
    [`@${ANN} hello`, '[Ann Example] hello'],
    [`hello @${formatId('user', BOB)}!`, 'hello [Bob]!'],
    [`@${ANN.toUpperCase()}`, '[Ann Example]'],
    [`ann@${ANN}`, `ann@${ANN}`],
    ['<b>@usr_x</b>', '<b>@usr_x</b>'],
    [`@${ANN}x`, `@${ANN}x`],
  ]
  for (const [body, wanted] of rows) t.equal(pieces(body), wanted)
  t.equal(pieces(`@${ANN}`, []), `@${ANN}`, 'whom the comment does not mention')
})

t.test('the name that is being typed', async (t) => {
  const rows: [string, string | undefined][] = [
    ['@', ''],
    ['hi @an', 'an'],
    ['hi @Ann Ex', 'Ann Ex'],
    ['(@an', 'an'],
    ['ann@example', undefined],
    ['@ann wrote this yesterday', undefined],
    ['@ann\nnext', undefined],
    ['none', undefined],
  ]
  for (const [text, query] of rows) t.equal(comments.mentionAt(text, text.length)?.query, query, text)
  t.equal(comments.mentionAt('@ann and more', 3)?.query, 'an', 'before the caret')
})

t.test('what is written goes to the API by ids, and comes back by names', async (t) => {
  const chosen = new Map<string, string>()
  for (const [id, name] of [
    [ANN, 'Ann'],
    [BOB, 'Ann Example'],
  ] as const) {
    chosen.set(comments.labelFor({ id, name }, chosen), id)
  }
  const rows: [string, string][] = [
    ['@Ann and @Ann Example', `@${ANN} and @${BOB}`],
    ['@Ann, @Ann!', `@${ANN}, @${ANN}!`],
    ['@Anna ann@Ann', '@Anna ann@Ann'],
    ['nobody', 'nobody'],
  ]
  for (const [text, body] of rows) t.equal(comments.withIds(text, chosen), body, text)
  t.equal(comments.withIds('a', new Map()), 'a')
  const odd = new Map([['@A.(b) [c]', ANN]])
  t.equal(comments.withIds('x @A.(b) [c] y @A1(b)', odd), `x @${ANN} y @A1(b)`)
  const same = new Map([['@Ann', ANN]])
  t.equal(comments.labelFor({ id: BOB, name: 'Ann' }, same), '@Ann (2)', 'two of one name')
  t.equal(comments.labelFor({ id: ANN, name: 'Ann' }, same), '@Ann')
  const draft = comments.toDraft({ body: `Dear @${ANN} and @${BOB}`, mentions: [ANN, BOB] }, () => 'Ann')
  t.equal(draft.text, 'Dear @Ann and @Ann (2)')
  t.equal(comments.withIds(draft.text, draft.chosen), `Dear @${ANN} and @${BOB}`)
  t.strictSame(comments.withMention('hi @an there', 6, { from: 3 }, '@Ann'), { text: 'hi @Ann there', caret: 8 })
})

t.test('a reaction takes the place of an earlier one in the counts', async (t) => {
  const rows: [string | undefined, string | null, object][] = [
    [undefined, 'b', { a: 1, b: 1 }],
    ['a', 'b', { a: 0, b: 1 }],
    ['a', null, { a: 0, b: 0 }],
    ['b', null, { a: 1, b: 0 }],
  ]
  for (const [before, after, wanted] of rows) t.strictSame(comments.recount({ a: 1, b: 0 }, before, after), wanted)
  t.strictSame(comments.EMOJIS, EMOJIS, 'those of the API')
  t.equal(comments.EMOJI_NAMES.length, EMOJIS.length)
})
