import t from 'tap'
import type { Outcome } from '../../../../api/features/notifications/channel.ts'
import { parseSender } from '../../../../api/features/notifications/email/address.ts'
import { emailPart } from '../../../../api/features/notifications/email/channel.ts'
import { outcomeOf } from '../../../../api/features/notifications/email/nodemailer.ts'
import { isTo } from '../../../../api/features/notifications/erasure.ts'
import {
  jittered,
  type Next,
  nextOf,
  nextOfLost,
  pauseSeconds,
  REPEAT_SECONDS,
  receiverPauseSeconds,
} from '../../../../api/features/notifications/plan.ts'
import { NotificationSettings } from '../../../../api/features/notifications/settings.ts'
import { cleanFacts, render, timeOf } from '../../../../api/features/notifications/templates/render.ts'
import { type InvitationFacts, languageOf } from '../../../../api/features/notifications/templates/template.ts'
import { cleanLine, cleanLines, cut, escapeHtml } from '../../../../api/features/notifications/templates/text.ts'
import {
  hashOfAddress,
  readUnsubscribeToken,
  unsubscribeToken,
} from '../../../../api/features/notifications/unsubscribe-token.ts'
import { isAddress, isPublicAddress } from '../../../../api/requests/mail-address.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { loadConfig } from '../../../../lib/runtime/config.ts'
import { LINK_KEYS } from '../../../support/notifications.ts'

const reason = 'why'
const OUTCOMES: [string, Outcome, number, boolean, Partial<Next>][] = [
  ['sent', { is: 'sent' }, 1, false, { state: 'sent', attempts: 1 }],
  ['refused', { is: 'refused', reason }, 1, false, { state: 'failed', dropsDestination: false }],
  ['gone', { is: 'gone', reason }, 1, false, { state: 'failed', dropsDestination: true }],
  ['later, the first time', { is: 'later', reason }, 1, false, { state: 'pending', afterSeconds: 60 }],
  ['later, the second time', { is: 'later', reason }, 2, false, { state: 'pending', afterSeconds: 300 }],
  ['later, the last time', { is: 'later', reason }, 3, false, { state: 'failed' }],
  ['later, after silence', { is: 'later', reason }, 2, true, { state: 'pending', mayHaveArrived: true }],
  ['later, the last time after silence', { is: 'later', reason }, 3, true, { state: 'uncertain' }],
  ['later, with patience', { is: 'later', reason, afterSeconds: 600 }, 1, false, { afterSeconds: 600 }],
  ['later, with less patience than ours', { is: 'later', reason, afterSeconds: 1 }, 1, false, { afterSeconds: 60 }],
  ['later, with too much patience', { is: 'later', reason, afterSeconds: 1e6 }, 1, false, { afterSeconds: 3600 }],
  [
    'unknown, once',
    { is: 'unknown', reason },
    1,
    false,
    { state: 'pending', mayHaveArrived: true, afterSeconds: REPEAT_SECONDS },
  ],
  [
    'later, of the receiver',
    { is: 'later', of: 'destination', afterSeconds: 1e6, reason },
    3,
    false,
    { state: 'failed', pauses: 'destination', askedSeconds: 3600, endsPauses: false },
  ],
  ['later, of this message', { is: 'later', reason }, 1, false, { pauses: undefined, endsPauses: true }],
  [
    'later, without an answer',
    { is: 'later', isAnswered: false, reason },
    1,
    false,
    { attempts: 1, endsPauses: false },
  ],
  ['later, as nothing was sent', { is: 'later', wasSent: false, reason }, 1, false, { endsPauses: false }],
  [
    'later, as the service could not be reached',
    { is: 'later', of: 'service', wasSent: false, reason },
    3,
    false,
    { state: 'pending', attempts: 2, afterSeconds: 60, pauses: 'service', endsPauses: false },
  ],
  ['unknown, of a receiver that rested', { is: 'unknown', reason }, 1, false, { endsPauses: false }],
  ['unknown, twice', { is: 'unknown', reason }, 2, true, { state: 'uncertain' }],
  ['paused', { is: 'paused', reason }, 1, false, { state: 'pending', attempts: 0, pausesChannel: true }],
  ['paused after silence', { is: 'paused', reason }, 2, true, { state: 'pending', attempts: 1, mayHaveArrived: true }],
]
for (const [name, outcome, attempts, mayHaveArrived, next] of OUTCOMES) {
  t.test(`what ${name} makes of a delivery`, async (t) => {
    const attempt = { attempts, mayHaveArrived, schedule: [60, 300] }
    t.match(nextOf(outcome, { ...attempt, isIdempotent: false }), next)
    if (outcome.is !== 'unknown') t.match(nextOf(outcome, { ...attempt, isIdempotent: true }), next)
  })
}

t.test('silence of a receiver that knows repetitions is retried by the schedule, to its end', async (t) => {
  const silence = (attempts: number, mayHaveArrived: boolean) =>
    nextOf({ is: 'unknown', reason }, { attempts, mayHaveArrived, schedule: [5, 300], isIdempotent: true })
  const waits = { state: 'pending', mayHaveArrived: true, endsPauses: false, pauses: undefined, reason }
  t.match(silence(1, false), { ...waits, attempts: 1, afterSeconds: 5 })
  t.match(silence(2, true), { ...waits, attempts: 2, afterSeconds: 300 })
  t.match(silence(3, true), { state: 'uncertain', mayHaveArrived: true })
  t.match(silence(3, false), { state: 'uncertain', mayHaveArrived: true })
})

t.test(
  'a temporary failure of a message that a purge waits for is repeated by the last step of the schedule',
  async (t) => {
    const attempt = { attempts: 3, mayHaveArrived: false, schedule: [60, 300], isIdempotent: false, isAwaited: true }
    t.match(nextOf({ is: 'later', reason }, attempt), { state: 'pending', afterSeconds: 300 })
    t.match(nextOf({ is: 'later', reason }, { ...attempt, attempts: 40 }), { state: 'pending', attempts: 40 })
    t.match(nextOf({ is: 'later', afterSeconds: 600, reason }, attempt), { state: 'pending', afterSeconds: 600 })
    t.match(nextOf({ is: 'later', reason }, { ...attempt, mayHaveArrived: true }), { state: 'uncertain' })
    t.match(nextOf({ is: 'refused', reason }, attempt), { state: 'failed' })
  },
)

t.test('an attempt that asked no receiver does not count for a message that a purge waits for', async (t) => {
  const attempt = { attempts: 3, mayHaveArrived: false, schedule: [60, 300], isIdempotent: false, isAwaited: true }
  const waits = { state: 'pending', attempts: 2, afterSeconds: 900 }
  t.match(nextOf({ is: 'later', wasSent: false, reason }, attempt), { ...waits, endsPauses: false })
  t.match(nextOf({ is: 'later', isOurs: true, reason }, attempt), waits)
  t.match(nextOf({ is: 'later', isOurs: true, afterSeconds: 1000, reason }, attempt), { ...waits, afterSeconds: 1000 })
  t.match(nextOf({ is: 'later', isOurs: true, of: 'service', reason }, attempt), { ...waits, pauses: 'service' })
  t.match(nextOf({ is: 'later', isOurs: true, reason }, { ...attempt, isAwaited: false }), { state: 'failed' })
  t.match(nextOf({ is: 'later', of: 'destination', reason }, attempt), { state: 'pending', attempts: 3 })
})

t.test('an attempt that was lost with its worker has waited as long as its lease', async (t) => {
  const lost = (attempts: number, isIdempotent: boolean, mayHaveArrived = attempts > 1) =>
    nextOfLost({ attempts, mayHaveArrived, schedule: [5, 300], isIdempotent }, 150)
  const waits = { state: 'pending', mayHaveArrived: true, reason: /the worker ended/ }
  t.match(lost(1, false), { ...waits, afterSeconds: 0 })
  t.match(lost(2, false), { state: 'uncertain' })
  t.match(lost(1, true), { ...waits, afterSeconds: 0 })
  t.match(lost(2, true), { ...waits, afterSeconds: 150 })
  t.match(lost(3, true), { state: 'uncertain' })
})

t.test('pauses grow up to a quarter of an hour', async (t) => {
  t.strictSame([1, 2, 3, 5, 6, 50].map(pauseSeconds), [30, 60, 120, 480, 900, 900])
  t.strictSame(
    [1, 2, 5, 8, 9, 50].map((n) => receiverPauseSeconds(n, 0)),
    [5, 10, 80, 640, 900, 900],
  )
  t.strictSame(
    [1, 50].map((n) => receiverPauseSeconds(n, 3600)),
    [3600, 3600],
  )
  t.strictSame([jittered(100, 0), jittered(100, 0.5)], [90, 100])
})

t.test('what a failed transfer means', async (t) => {
  const failed = (o: object, hasBegun = false) => outcomeOf({ error: Object.assign(new Error('x'), o), hasBegun }).is
  t.equal(failed({ code: 'ECONNECTION', command: 'CONN' }, true), 'unknown')
  t.equal(failed({ code: 'ETIMEDOUT', command: 'CONN' }), 'later')
  t.equal(failed({ responseCode: 421, command: 'CONN' }, true), 'later')
  t.equal(failed({ responseCode: 550, command: 'RCPT TO' }), 'refused')
  t.equal(failed({ responseCode: 554, command: 'DATA' }, true), 'refused')
  t.equal(failed({ responseCode: 550, command: 'MAIL FROM' }), 'paused')
  t.equal(failed({ responseCode: 451, command: 'MAIL FROM' }), 'paused')
  t.equal(failed({ responseCode: 421, command: 'RCPT TO' }), 'later')
  t.equal(failed({ responseCode: 535, command: 'RCPT TO' }), 'paused')
  t.equal(failed({ code: 'EMESSAGE', command: 'MAIL FROM' }), 'refused')
})

t.test('one address and nothing else', async (t) => {
  for (const text of ["o'neil+x@example.org", 'a@b', 'a.b@sub.example.org', `${'a'.repeat(64)}@example.org`]) {
    t.ok(isAddress(text), text)
  }
  for (const text of [
    ...['', 'a', 'a@', '@b', 'a b@example.org', 'a@example.org, b@example.org', '"a b"@example.org', 'a@b@c'],
    ...['g:a@example.org;', '<a@example.org>', 'a@example.org>\r\nRCPT TO:<b@example.org', 'a@-example.org', 'a@b..c'],
    ...[`${'a'.repeat(65)}@example.org`, `a@${'b'.repeat(63)}.${'c'.repeat(200)}`, 'a@[127.0.0.1]', 'ü@example.org'],
  ]) {
    t.notOk(isAddress(text), text)
  }
  for (const text of ['a@b', 'a.b@c', 'ü@example.org']) t.notOk(isPublicAddress(text), text)
  t.ok(isPublicAddress('a@b.example'))
  t.strictSame(parseSender('Keepsake <a@example.org>'), { name: 'Keepsake', address: 'a@example.org' })
  t.strictSame(parseSender('a@example.org'), { name: '', address: 'a@example.org' })
  t.equal(parseSender('Keepsake <a@example.org>, b@example.org'), undefined)
  t.equal(parseSender('K\r\nBcc: x <a@example.org>'), undefined)
})

t.test('texts of people lose what could move others', async (t) => {
  t.equal(cleanLine('Hi\r\nBcc: x@y.z'), 'Hi Bcc: x@y.z')
  t.equal(cleanLine('a\u0000b\u001b[31mc\u009fd\u202ee\u2066f\u2028g\u200fh'), 'ab[31mcdef gh')
  t.equal(cleanLines('a\r\nb\rc\u2029d\n\n\n\ne'), 'a\nb\nc\nd\n\ne')
  t.equal(cleanLine('\ud800x'), '\ufffdx')
  t.equal(cut('a'.repeat(120), 120).length, 120)
  t.equal(cut('ab👩‍👩‍👧‍👦cd', 12), 'ab…', 'a family is not cut into its members')
  t.equal(escapeHtml(`<a href="x" b='y'>&`), '&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;')
})

const facts: InvitationFacts = {
  template: 'EventInvitation.v1',
  invitationId: newUuid(),
  eventId: newUuid(),
  title: 'Class reunion',
  hostName: 'Mira',
  inviterName: 'Mira',
  startsAt: new Date('2026-07-04T16:30:00Z'),
  place: 'Old school',
  message: 'See you',
  inviteUrl: 'https://app.example.org/i/K7M2QX9A#t=x',
}
const parts = {
  language: 'en',
  timeZone: 'Europe/Berlin',
  url: 'https://api.example.org/v1/e/c/ntf_1#t=a.b.c',
  pixelUrl: 'https://api.example.org/v1/e/o/ntf_1',
  unsubscribeUrl: 'https://api.example.org/v1/u/t',
} as const

t.test('an invitation says who, what, when and where, in text and in HTML', async (t) => {
  const { mail, short } = render(cleanFacts(facts), parts)
  t.equal(mail.subject, 'Mira invites you: Class reunion')
  for (const said of ['Class reunion', 'Mira', 'Saturday', '4 July 2026', '18:30', 'CEST', 'Old school', 'See you']) {
    t.ok(mail.text.includes(said), `text: ${said}`)
    t.ok(mail.html.includes(said), `HTML: ${said}`)
  }
  for (const link of [parts.url, parts.unsubscribeUrl]) {
    t.ok(mail.text.includes(link))
    t.ok(mail.html.includes(`href="${link}"`))
  }
  t.match(mail.html, /<html lang="en" dir="ltr">/)
  t.match(mail.html, /<meta name="color-scheme" content="light dark">/)
  t.match(mail.html, /prefers-color-scheme:dark/)
  t.strictSame(mail.html.match(/<img [^>]*>/g)?.length, 1)
  t.match(mail.html, /<img src="https:\/\/api\.example\.org\/v1\/e\/o\/ntf_1"[^>]*alt=""/)
  t.notMatch(mail.html, /#fff\b|#000\b|#ffffff|#000000/i)
  t.strictSame(short, { title: mail.subject, body: timeOf(facts.startsAt, parts) })
  // The pixel and the unsubscribe link go to servers: neither has the token that answers the invitation.
  t.equal(mail.html.split('a.b.c').length - 1, 3, 'the button, and the link with its text')
})

t.test('in German, and with what is not known left out', async (t) => {
  const bare = { ...facts, hostName: null, inviterName: null, place: null, message: null }
  const { mail } = render(cleanFacts(bare), { ...parts, language: 'de' })
  t.equal(mail.subject, 'Du bist eingeladen: Class reunion')
  t.match(mail.text, /Samstag, 4\. Juli 2026 um 18:30 MESZ/)
  t.match(mail.html, /<html lang="de"/)
  t.notMatch(mail.text, /Wo:|null|undefined|See you/)
  t.strictSame(['de', 'DE-at', 'de_CH', 'en-US', 'fr', '', null].map(languageOf), [
    ...['de', 'de', 'de', 'en', undefined, undefined, undefined],
  ])
})

const EVIL = '</title><script>alert(1)</script>"><img src=x onerror=alert(1)>\r\nBcc: evil@example.net\u202e'
t.test('a notice before a purge says what goes, when, and what to do', async (t) => {
  const soon = {
    template: 'EventPurgeSoon.v1',
    eventId: newUuid(),
    title: 'Class\r\nreunion <b>',
    purgeAt: new Date('2033-07-04T16:30:00Z'),
  } as const
  const plain = { ...parts, pixelUrl: null }
  const { mail, short } = render(cleanFacts(soon), plain)
  t.equal(mail.subject, 'Will be deleted soon: Class reunion <b>')
  for (const said of ['4 July 2033', 'album, comments', 'that another album', 'download what you want to keep'])
    t.ok(mail.text.includes(said), said)
  t.ok(mail.html.includes('&lt;b&gt;') && !mail.html.includes('<b>'))
  t.match(short.body, /^Deleted on: Monday/)
  t.match(render(cleanFacts(soon), { ...plain, language: 'de' }).short, {
    title: /^Wird bald gelöscht/,
    body: /^Gelöscht am/,
  })
})

t.test('whatever people write stays text, and the mail stays small', async (t) => {
  const all = { title: EVIL, hostName: EVIL, inviterName: EVIL, place: EVIL, message: EVIL.repeat(40) }
  for (const one of [
    { ...facts, ...all },
    {
      template: 'Mention.v1',
      commentId: newUuid(),
      eventId: newUuid(),
      title: EVIL,
      authorName: EVIL,
      excerpt: EVIL,
    } as const,
  ]) {
    const { mail } = render(cleanFacts(one), parts)
    t.notMatch(mail.html, /<script|onerror=alert\(1\)>|<img src=x/)
    t.ok(mail.subject.length <= 120)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these must be gone
    t.notMatch(mail.subject, /[\u0000-\u001f\u202e]/)
    t.ok(mail.html.length < 50_000)
  }
  const long = render(cleanFacts({ ...facts, title: '🎉'.repeat(5000), message: 'ü\n'.repeat(5000) }), parts)
  t.ok(Buffer.byteLength(long.mail.html) < 100_000)
})

t.test('an unsubscribe link is for one template and one recipient, and outlives a rotation of keys', async (t) => {
  const user = { template: 'Mention.v1', who: { userId: newUuid() } } as const
  const stranger = { template: 'EventInvitation.v1', who: { addressHash: hashOfAddress('A@b.c') } } as const
  t.equal(hashOfAddress('A@b.c'), hashOfAddress('a@B.C'))
  for (const one of [user, stranger]) {
    const token = unsubscribeToken(LINK_KEYS, one)
    t.strictSame(readUnsubscribeToken(LINK_KEYS, token), one)
    const k2 = Buffer.alloc(32, 9).toString('base64url')
    t.strictSame(readUnsubscribeToken({ current: 'k2', keys: { ...LINK_KEYS.keys, k2 } }, token), one)
    t.equal(readUnsubscribeToken({ current: 'k1', keys: { k1: k2 } }, token), undefined)
    t.equal(
      readUnsubscribeToken(
        LINK_KEYS,
        token.replace(/\.[01]\./, (dot) => (dot === '.0.' ? '.1.' : '.0.')),
      ),
      undefined,
    )
    t.equal(readUnsubscribeToken(LINK_KEYS, `${token}=`), undefined)
  }
})

t.test('settings: all mistakes are named, and nothing configured is no mail', async (t) => {
  const none = loadConfig(NotificationSettings, {})
  t.equal(emailPart({ settings: none }).channel, undefined)
  const wrong = {
    SMTP_URL: 'http://x',
    MAIL_FROM: 'a, b',
    MAIL_TIME_ZONE: 'Mars/Base',
    MAIL_DOMAIN: 'a b',
    MAIL_LANGUAGE: 'xx',
  }
  const error = t.throws(() => loadConfig(NotificationSettings, wrong)) as unknown as { variables: string[] }
  t.strictSame([...error.variables].sort(), Object.keys(wrong).sort())
  const some = loadConfig(NotificationSettings, {
    SMTP_URL: 'smtp://u:p%40ss@mail.example.org:587',
    MAIL_FROM: 'Keepsake <a@example.org>',
    MAIL_TIME_ZONE: 'Europe/Berlin',
  })
  const on = emailPart({ settings: some }).channel
  t.equal(on?.name, 'email')
  await on?.close?.()
})

t.test('a mail is to an address that one of its headers has as a whole', (t) => {
  const mail = (to: string, body = '') => `From: Keepsake <no-reply@x.org>\r\nTo: ${to}\r\nSubject: Hi\r\n\r\n${body}`
  for (const to of ['an@x.org', 'An <AN@x.org>', '"An" <joan@x.org>,\r\n <an@x.org>'])
    t.ok(isTo(mail(to), 'an@x.org'), to)
  for (const to of ['joan@x.org', 'an@x.org.example', 'x-an@x.org', 'an@x.orgs'])
    t.notOk(isTo(mail(to), 'an@x.org'), to)
  t.notOk(isTo(mail('joan@x.org', 'an@x.org'), 'an@x.org'), 'what it says is not where it goes')
  t.end()
})
