import { htmlOf, type Mail, textOf } from './layout.ts'
import type {
  DownloadFacts,
  Facts,
  InvitationFacts,
  MailParts,
  MailText,
  MentionFacts,
  PurgeSoonFacts,
} from './template.ts'
import { cleanLine, cleanLines, cut } from './text.ts'
import { WORDS } from './words.ts'

const MAX_SUBJECT = 120
const MAX_NAME = 80
const MAX_TITLE = 200
const MAX_PLACE = 200
const MAX_MESSAGE = 1000
const MAX_EXCERPT = 300

/** The facts as they may be shown: cleaned of control characters and cut to what a mail has room for. Not escaped. */
export function cleanFacts(facts: Facts): Facts {
  if (facts.template === 'DownloadReady.v1') return facts
  const name = (given: string | null) => (given === null ? null : cut(cleanLine(given), MAX_NAME) || null)
  const title = cut(cleanLine(facts.title), MAX_TITLE)
  if (facts.template === 'EventPurgeSoon.v1') return { ...facts, title }
  if (facts.template === 'Mention.v1') {
    const { authorName, excerpt } = facts
    return { ...facts, title, authorName: name(authorName), excerpt: cut(cleanLines(excerpt), MAX_EXCERPT) }
  }
  const { hostName, inviterName, place, message } = facts
  return {
    ...facts,
    title,
    hostName: name(hostName),
    inviterName: name(inviterName),
    place: place === null ? null : cut(cleanLine(place), MAX_PLACE) || null,
    message: message === null ? null : cut(cleanLines(message), MAX_MESSAGE) || null,
  }
}

/** `Saturday 21 November 2026 at 18:30 CET`: with the time zone, because the reader may be in another one. */
export function timeOf(at: Date, { language, timeZone }: Pick<MailParts, 'language' | 'timeZone'>): string {
  const format = new Intl.DateTimeFormat(WORDS[language].locale, {
    weekday: 'long',
    year: 'numeric',
    month: 'long',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    timeZone,
    timeZoneName: 'short',
  })
  return format.format(at)
}

export interface Texts {
  mail: MailText
  short: { title: string; body: string }
}

/** The texts of a notification. `facts` as `cleanFacts` returns them. */
export function render(facts: Facts, parts: MailParts): Texts {
  const { mail, body } = mailAndBody(facts, parts)
  return {
    mail: { subject: mail.subject, text: textOf(mail), html: htmlOf(mail) },
    short: { title: mail.subject, body },
  }
}

function mailAndBody(facts: Facts, parts: MailParts): { mail: Mail; body: string } {
  switch (facts.template) {
    case 'EventInvitation.v1':
      return { mail: invitationOf(facts, parts), body: timeOf(facts.startsAt, parts) }
    case 'Mention.v1':
      return { mail: mentionOf(facts, parts), body: facts.excerpt }
    case 'DownloadReady.v1': {
      const mail = downloadOf(facts, parts)
      return { mail, body: mail.preheader }
    }
    case 'EventPurgeSoon.v1': {
      const mail = purgeSoonOf(facts, parts)
      return { mail, body: mail.preheader }
    }
  }
}

function downloadOf(facts: DownloadFacts, parts: MailParts): Mail {
  const words = WORDS[parts.language]
  const size = words.filesOf(facts.files, sizeOf(facts.bytes, words.locale))
  const until = timeOf(facts.expiresAt, parts)
  const title = words.ready[facts.kind]
  return {
    ...common(parts),
    subject: `${words.isReady} ${title}`,
    preheader: `${size} · ${words.until}: ${until}`,
    lead: words.isReady,
    title,
    details: [
      { label: words.size, value: size },
      { label: words.until, value: until },
    ],
    quote: undefined,
    button: { label: words.download, url: parts.url, byHand: words.byHand },
    why: words.whyReady,
  }
}

/** `3.9 GB`, as file managers show it. */
function sizeOf(bytes: number, locale: string): string {
  const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte'] as const
  const n = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)))
  const format = { style: 'unit', unit: units[n] ?? 'byte', maximumFractionDigits: n < 2 ? 0 : 1 } as const
  return new Intl.NumberFormat(locale, format).format(bytes / 1000 ** n)
}

function invitationOf(facts: InvitationFacts, parts: MailParts): Mail {
  const words = WORDS[parts.language]
  const { hostName, inviterName, title, place, message } = facts
  const starts = timeOf(facts.startsAt, parts)
  return {
    ...common(parts),
    subject: cut(words.invites(hostName, title), MAX_SUBJECT),
    preheader: [starts, place].filter(Boolean).join(' · '),
    lead: words.invited(hostName),
    title,
    details: [{ label: words.when, value: starts }, ...(place === null ? [] : [{ label: words.where, value: place }])],
    quote: message === null ? undefined : { label: words.wrote(inviterName), text: message },
    button: { label: words.answer, url: parts.url, byHand: words.byHand },
    why: words.whyInvited,
  }
}

function mentionOf(facts: MentionFacts, parts: MailParts): Mail {
  const words = WORDS[parts.language]
  const { authorName, title, excerpt } = facts
  return {
    ...common(parts),
    subject: cut(words.mentions(authorName, title), MAX_SUBJECT),
    preheader: cut(excerpt.replaceAll('\n', ' '), MAX_SUBJECT),
    lead: words.mentioned(authorName),
    title,
    details: [],
    quote: { label: words.wrote(authorName), text: excerpt },
    button: { label: words.read, url: parts.url, byHand: words.byHand },
    why: words.whyMentioned,
  }
}

function purgeSoonOf({ title, purgeAt }: PurgeSoonFacts, parts: MailParts): Mail {
  const words = WORDS[parts.language]
  const at = timeOf(purgeAt, parts)
  return {
    ...common(parts),
    subject: cut(words.isPurgedSoon(title), MAX_SUBJECT),
    preheader: `${words.purgedOn}: ${at}`,
    lead: words.archivedEvent,
    title,
    details: [
      { label: words.purgedOn, value: at },
      { label: words.goes, value: words.whatGoes },
      { label: words.stays, value: words.whatStays },
    ],
    quote: { label: words.toKeep, text: words.howToKeep },
    button: { label: words.openEvent, url: parts.url, byHand: words.byHand },
    why: words.whyPurgedSoon,
  }
}

const common = ({ language, unsubscribeUrl, pixelUrl }: MailParts) => ({
  lang: language,
  unsubscribe: { label: WORDS[language].unsubscribe, url: unsubscribeUrl },
  pixelUrl,
})
