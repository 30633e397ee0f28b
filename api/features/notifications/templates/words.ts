import type { DownloadFacts, Language } from './template.ts'

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
  ready: Record<DownloadFacts['kind'], string>
  /** What stands above the title. */
  isReady: string
  size: string
  filesOf(files: number, size: string): string
  until: string
  download: string
  whyReady: string
  isPurgedSoon(title: string): string
  archivedEvent: string
  purgedOn: string
  goes: string
  whatGoes: string
  stays: string
  whatStays: string
  toKeep: string
  howToKeep: string
  openEvent: string
  whyPurgedSoon: string
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
    ready: { data: 'A copy of your data', audit: 'An export of the audit log' },
    isReady: 'Ready to download:',
    size: 'Size',
    filesOf: (files, size) => (files === 1 ? `1 file, ${size}` : `${files} files, ${size}`),
    until: 'Available until',
    download: 'Sign in and download',
    whyReady: 'You get this e-mail because this was requested from your account in Keepsake.',
    isPurgedSoon: (title) => `Will be deleted soon: ${title}`,
    archivedEvent: 'This archived event will be deleted for good:',
    purgedOn: 'Deleted on',
    goes: 'What goes',
    whatGoes:
      'The event with its album, comments, reactions and invitations, and the photos and videos that were added for it alone',
    stays: 'What stays',
    whatStays: 'Photos and videos that another album, event or highlight uses',
    toKeep: 'To keep it:',
    howToKeep: 'Open the event and download what you want to keep. It can be viewed and downloaded until then.',
    openEvent: 'Open the event',
    whyPurgedSoon:
      'You get this e-mail because you own this event in Keepsake, or the organization that it belongs to.',
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
    ready: { data: 'Eine Kopie deiner Daten', audit: 'Ein Export des Protokolls' },
    isReady: 'Zum Herunterladen bereit:',
    size: 'Größe',
    filesOf: (files, size) => (files === 1 ? `1 Datei, ${size}` : `${files} Dateien, ${size}`),
    until: 'Verfügbar bis',
    download: 'Anmelden und herunterladen',
    whyReady: 'Du bekommst diese E-Mail, weil das von deinem Konto in Keepsake aus angefordert wurde.',
    isPurgedSoon: (title) => `Wird bald gelöscht: ${title}`,
    archivedEvent: 'Dieses archivierte Event wird endgültig gelöscht:',
    purgedOn: 'Gelöscht am',
    goes: 'Was gelöscht wird',
    whatGoes:
      'Das Event mit Album, Kommentaren, Reaktionen und Einladungen, und die Fotos und Videos, die nur dafür hinzugefügt wurden',
    stays: 'Was bleibt',
    whatStays: 'Fotos und Videos, die ein anderes Album, Event oder Highlight verwendet',
    toKeep: 'So behältst du es:',
    howToKeep:
      'Öffne das Event und lade herunter, was du behalten möchtest. Bis dahin kannst du es ansehen und herunterladen.',
    openEvent: 'Event öffnen',
    whyPurgedSoon:
      'Du bekommst diese E-Mail, weil dir dieses Event in Keepsake gehört, oder die Organisation, zu der es gehört.',
    unsubscribe: 'Keine E-Mails dieser Art mehr',
    locale: 'de-DE',
  },
}
