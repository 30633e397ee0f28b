import t from 'tap'
import { CommentEdit, NewComment } from '../../../../../api/features/discussions/comments/comment.ts'
import { excerptOf, MAX_MENTIONS, mentionsIn } from '../../../../../api/features/discussions/comments/mentions.ts'
import { type Content, planEdit } from '../../../../../api/features/discussions/comments/plan.ts'
import { audienceOf, whileEditable } from '../../../../../api/features/discussions/comments/policy.ts'
import { formatId, newUuid } from '../../../../../lib/contract/ids.ts'

const [ann, ben, cat] = [newUuid(), newUuid(), newUuid()]
const [usrAnn, usrBen] = [formatId('user', ann), formatId('user', ben)]

const BODIES: [what: string, body: string, mentions: string[]][] = [
  ['nobody', 'Hello', []],
  ['an id', `@${usrAnn}`, [ann]],
  ['a bare UUID', `@${ann}`, [ann]],
  ['a bare UUID in capitals', `@${ann.toUpperCase()}`, [ann]],
  ['both forms of one user', `@${ann} @${usrAnn}`, [ann]],
  ['two, in their order', `@${usrBen}, @${usrAnn}!`, [ben, ann]],
  ['two without a blank', `@${usrBen}@${usrAnn}`, [ben]],
  ['one in brackets', `(@${usrAnn})`, [ann]],
  ['one in Markdown', `_@${usrAnn}_`, [ann]],
  ['one before a full stop', `Ask @${usrAnn}.`, [ann]],
  ['one before a dash', `@${usrAnn} - @${ben}-`, [ann, ben]],
  ['one in a line of its own', `See\n@${usrAnn}\nthere`, [ann]],
  ['one behind a bidi mark', `\u200F@${usrAnn}\u200F`, [ann]],
  ['one behind an emoji', `🎉@${usrAnn}🎉`, [ann]],
  ['a sign before a mention', `@@${usrAnn}`, [ann]],
  ['an address', `ann@${usrAnn}`, []],
  ['an address in another script', `あ@${usrAnn}`, []],
  ['an id with a letter more', `@${usrAnn}x`, []],
  ['an id with a letter of another script', `@${usrAnn}é`, []],
  ['an id with a part more', `@${ann}-x`, []],
  ['an id with a letter less', `@${usrAnn.slice(0, -1)}`, []],
  ['an id out of range', '@usr_81j4p0f84wfhz8mpfz3mjs2qaf', []],
  ['an id in capitals', `@${usrAnn.toUpperCase()}`, []],
  ['an id of another kind', `@${formatId('event', ann)}`, []],
  ['a name', '@ann', []],
  ['an id without a sign', usrAnn, []],
  ['a sign far away', `@ ${usrAnn}`, []],
  ['a sign of full width', `＠${usrAnn}`, []],
]
for (const [what, body, mentions] of BODIES) {
  t.test(`of ${what}, the body mentions ${mentions.length}`, async (t) => t.strictSame(mentionsIn(body), mentions))
}

t.test('a body of nothing but signs is read in one pass', async (t) => {
  t.strictSame(mentionsIn('@'.repeat(4000)), [])
  t.strictSame(mentionsIn(`@${'0'.repeat(3999)}`), [])
  t.equal(mentionsIn(Array.from({ length: 100 }, () => `@${newUuid()}`).join(' ')).length, 100)
})

t.test('an excerpt is the beginning, in whole code points', async (t) => {
  t.equal(excerptOf('a'.repeat(140)), 'a'.repeat(140))
  t.equal(excerptOf('a'.repeat(141)), `${'a'.repeat(139)}…`)
  t.equal(excerptOf('😀'.repeat(200)), `${'😀'.repeat(139)}…`)
  t.ok(excerptOf('😀'.repeat(200)).isWellFormed())
})

const before: Content = {
  body: `Hello @${usrAnn}`,
  mediaIds: ['m1', 'm2'],
  mentionsGiven: [ben],
  mentions: [ben, ann],
}
const plan = (changes: Parameters<typeof planEdit>[0]) => planEdit(changes, before)

t.test('a new comment is an edit of nothing', async (t) => {
  t.strictSame(planEdit({ body: `@${usrAnn}`, media_ids: ['m1'], mentions: [ben, ben] }), {
    content: { body: `@${usrAnn}`, mediaIds: ['m1'], mentionsGiven: [ben], mentions: [ben, ann] },
    isChange: true,
    attached: ['m1'],
    added: [ben, ann],
  })
})

t.test('an edit changes what it names and nothing else', async (t) => {
  t.strictSame(plan({ body: 'Bye' }), {
    content: { ...before, body: 'Bye', mentions: [ben] },
    isChange: true,
    attached: [],
    added: [],
  })
  t.match(plan({ mentions: [cat] }), { content: { body: before.body, mentions: [cat, ann] }, added: [cat] })
  t.match(plan({ media_ids: ['m2', 'm3'] }), { content: { mediaIds: ['m2', 'm3'] }, attached: ['m3'], added: [] })
  t.match(plan({ media_ids: ['m2', 'm1'] }), { isChange: true, attached: [] })
})

t.test('null clears the attachments, and the mentions of the field', async (t) => {
  t.match(plan({ media_ids: null }), { content: { mediaIds: [] }, isChange: true })
  t.match(plan({ mentions: null }), { content: { mentionsGiven: [], mentions: [ann] }, isChange: true, added: [] })
})

t.test('what is there already is no change', async (t) => {
  for (const changes of [
    {},
    { body: before.body },
    { mentions: [ben] },
    { media_ids: ['m1', 'm2'] },
    { body: before.body, mentions: [ben, ben], media_ids: ['m1', 'm2'] },
  ]) {
    t.equal(plan(changes).isChange, false)
  }
})

t.test('the window is over when it is', async (t) => {
  t.equal(whileEditable({ isPastEdit: false }), undefined)
  t.match(whileEditable({ isPastEdit: true }), { code: 'COMMENT_EDIT_WINDOW_EXPIRED' })
})

const PLACES: [what: string, places: Parameters<typeof audienceOf>, audience: 'event' | 'album' | undefined][] = [
  ['nowhere', [{ isInAlbum: false, attachedFor: [] }, true], undefined],
  ['in an album that the caller sees', [{ isInAlbum: true, attachedFor: [] }, true], 'album'],
  ['in an album that the caller does not see', [{ isInAlbum: true, attachedFor: [] }, false], undefined],
  ['attached for all', [{ isInAlbum: false, attachedFor: ['event'] }, false], 'event'],
  ['attached for all, and the caller sees the album', [{ isInAlbum: false, attachedFor: ['event'] }, true], 'event'],
  ['attached where the album is', [{ isInAlbum: false, attachedFor: ['album'] }, true], 'album'],
  ['attached where an unseen album is', [{ isInAlbum: false, attachedFor: ['album'] }, false], undefined],
  ['in a seen album and attached for all', [{ isInAlbum: true, attachedFor: ['event'] }, true], 'album'],
  ['in an unseen album and attached for all', [{ isInAlbum: true, attachedFor: ['event'] }, false], 'event'],
  ['attached for both, album unseen', [{ isInAlbum: true, attachedFor: ['event', 'album'] }, false], 'event'],
]
for (const [what, places, audience] of PLACES) {
  t.test(`a comment on a media item that is ${what} is for ${audience ?? 'nobody'}`, async (t) => {
    t.equal(audienceOf(...places), audience)
  })
}

const media = () => formatId('media', newUuid())
const GOOD: [what: string, fields: object][] = [
  ['the least', { body: 'x' }],
  ['the longest body', { body: '😀'.repeat(4000) }],
  ['a decomposed body that is as long when composed', { body: 'e\u0301'.repeat(4000) }],
  ['nulls', { body: 'x', media_ids: null, mentions: null }],
  ['four media items', { body: 'x', media_ids: [media(), media(), media(), media()] }],
  ['many mentions', { body: 'x', mentions: Array.from({ length: MAX_MENTIONS }, () => newUuid()) }],
  ['the same mention twice', { body: 'x', mentions: [ann, usrAnn] }],
]
for (const [what, fields] of GOOD) {
  t.test(`a comment may have ${what}`, async (t) => {
    t.ok(NewComment.safeParse(fields).success)
    t.ok(CommentEdit.safeParse(fields).success)
  })
}

const same = newUuid()
const BAD: [what: string, fields: object][] = [
  ['a null for a body', { body: null }],
  ['an empty body', { body: '' }],
  ['blanks', { body: ' \n\u2003' }],
  ['a long body', { body: '😀'.repeat(4001) }],
  ['NUL', { body: 'a\0b' }],
  ['a control character', { body: 'a\u001bb' }],
  ['half a surrogate pair', { body: 'a\uD83D' }],
  ['half a pair, the other one', { body: '\uDE00a' }],
  ['4,000 marks in a row', { body: `a${'\u0301'.repeat(3999)}` }],
  ['five media items', { body: 'x', media_ids: [media(), media(), media(), media(), media()] }],
  ['a media item twice', { body: 'x', media_ids: [same, formatId('media', same)] }],
  ['a media item that is none', { body: 'x', media_ids: ['photo'] }],
  ['one media item', { body: 'x', media_ids: media() }],
  ['a mention that is no id', { body: 'x', mentions: ['ann'] }],
  ['too many mentions', { body: 'x', mentions: Array.from({ length: MAX_MENTIONS + 1 }, () => newUuid()) }],
]
for (const [what, fields] of BAD) {
  t.test(`a comment may not have ${what}`, async (t) => {
    t.equal(NewComment.safeParse(fields).success, false)
    t.equal(CommentEdit.safeParse(fields).success, false)
  })
}

t.test('a new comment has a body, and an edit names a field', async (t) => {
  t.equal(NewComment.safeParse({ media_ids: [media()] }).success, false)
  t.equal(CommentEdit.safeParse({}).success, false)
  t.equal(CommentEdit.safeParse({ colour: 'red' }).success, false)
  t.ok(CommentEdit.safeParse({ mentions: null }).success)
})
