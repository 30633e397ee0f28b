import t from 'tap'
import { NewReaction } from '../../../../api/features/discussions/reactions/reaction.ts'
import { EMOJIS, parseEmoji } from '../../../../api/features/reaction-counts/emoji.ts'
import { toCounts } from '../../../../api/features/reaction-counts/reaction-counts.ts'

const HEART = '\u2764\uFE0F'

t.test('the set is that of the specification', async (t) => {
  t.strictSame(EMOJIS, [HEART, '\u{1F602}', '\u{1F389}', '\u{1F622}', '\u{1F44F}', '\u{1F525}'])
})

const GOOD: [given: string, emoji: string][] = [
  ['\u2764', HEART],
  [HEART, HEART],
  ...['\u{1F602}', '\u{1F389}', '\u{1F622}', '\u{1F44F}', '\u{1F525}'].flatMap((one): [string, string][] => [
    [one, one],
    [`${one}\uFE0F`, one],
  ]),
]
for (const [given, emoji] of GOOD) {
  t.test(`${JSON.stringify(given)} is ${emoji}`, async (t) => t.equal(parseEmoji(given), emoji))
}

const BAD: [what: string, given: string][] = [
  ['nothing', ''],
  ['a word', 'heart'],
  ['a selector alone', '\uFE0F'],
  ['two selectors', '\u2764\uFE0F\uFE0F'],
  ['a selector first', '\uFE0F\u2764'],
  ['the selector that makes it text', '\u2764\uFE0E'],
  ['two emojis', '\u{1F602}\u{1F602}'],
  ['an emoji and a blank', '\u{1F602} '],
  ['half an emoji', '\uD83D'],
  ['an emoji in quotation marks', '"\u{1F602}"'],
  ['a skin tone', '\u{1F44F}\u{1F3FD}'],
  ['a skin tone and a selector', '\u{1F44F}\u{1F3FD}\uFE0F'],
  ['a burning heart (ZWJ)', '\u2764\uFE0F\u200D\u{1F525}'],
  ['a family (ZWJ)', '\u{1F468}\u200D\u{1F469}\u200D\u{1F467}'],
  ['a flag', '\u{1F1EF}\u{1F1F5}'],
  ['a flag of tags', '\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}'],
  ['a keycap', '1\uFE0F\u20E3'],
  ['another heart', '\u{1F499}'],
  ['a heavy black heart as an entity', '&#10084;'],
  ['a name of every object', '__proto__'],
]
const id = 'evt_01j4p0f84wfhz8mpfz3mjs2qaf'
for (const [what, given] of BAD) {
  t.test(`${what} is none of them`, async (t) => {
    t.equal(parseEmoji(given), undefined)
    t.equal(NewReaction.safeParse({ action_id: id, emoji: given }).success, false)
  })
}

t.test('counts have all six, whatever was counted', async (t) => {
  const none = { [HEART]: 0, '😂': 0, '🎉': 0, '😢': 0, '👏': 0, '🔥': 0 }
  t.strictSame(toCounts(null), none)
  t.strictSame(toCounts({ '🔥': 2 }), { ...none, '🔥': 2 })
})
