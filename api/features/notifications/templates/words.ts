import type { Language } from './template.ts'

interface Words {
  invites(host: string | null, title: string): string
  invited(host: string | null): string
  when: string
  where: string
  wrote(name: string | null): string
  answer: string
  byHand: string
  whyInvited: string
  mentions(author: string | null, title: string): string
  mentioned(author: string | null): string
  read: string
  whyMentioned: string
  unsubscribe: string
  /** For `Intl`. */
  locale: string
}

export const WORDS: Record<Language, Words> = {
  en: {
    invites: (host, title) => (host ? `${host} invites you: ${title}` : `You are invited: ${title}`),
    invited: (host) => (host ? `${host} invites you to` : 'You are invited to'),
    when: 'When',
    where: 'Where',
    wrote: (name) => (name ? `${name} writes:` : 'The message to you:'),
    answer: 'See the invitation and answer',
    byHand: 'Or copy this address into your browser:',
    whyInvited: 'You get this e-mail because you were invited to an event in Keepsake.',
    mentions: (author, title) => (author ? `${author} mentioned you: ${title}` : `You were mentioned: ${title}`),
    mentioned: (author) => (author ? `${author} mentioned you in a comment on` : 'You were mentioned in a comment on'),
    read: 'Read the comment',
    whyMentioned: 'You get this e-mail because a comment in Keepsake mentions you.',
    unsubscribe: 'No more e-mails of this kind',
    locale: 'en-GB',
  },
  de: {
    invites: (host, title) => (host ? `${host} lädt dich ein: ${title}` : `Du bist eingeladen: ${title}`),
    invited: (host) => (host ? `${host} lädt dich ein zu` : 'Du bist eingeladen zu'),
    when: 'Wann',
    where: 'Wo',
    wrote: (name) => (name ? `${name} schreibt:` : 'Die Nachricht an dich:'),
    answer: 'Einladung ansehen und antworten',
    byHand: 'Oder kopiere diese Adresse in deinen Browser:',
    whyInvited: 'Du bekommst diese E-Mail, weil du in Keepsake zu einem Event eingeladen wurdest.',
    mentions: (author, title) => (author ? `${author} hat dich erwähnt: ${title}` : `Du wurdest erwähnt: ${title}`),
    mentioned: (author) =>
      author ? `${author} hat dich in einem Kommentar erwähnt, zu` : 'Du wurdest in einem Kommentar erwähnt, zu',
    read: 'Kommentar lesen',
    whyMentioned: 'Du bekommst diese E-Mail, weil dich ein Kommentar in Keepsake erwähnt.',
    unsubscribe: 'Keine E-Mails dieser Art mehr',
    locale: 'de-DE',
  },
}
