import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { DownloadKind } from '../../downloads/queries.ts'

export const LANGUAGES = ['en', 'de'] as const
export type Language = (typeof LANGUAGES)[number]

/** The language for a BCP 47 tag such as `de-AT`; undefined where no template speaks it. */
export const languageOf = (locale: string | null): Language | undefined =>
  LANGUAGES.find((one) => locale?.toLowerCase().split(/[-_]/, 1)[0] === one)

/** What EventInvitation.v1 says. `hostName` is null after the owner of the event has left. */
export interface InvitationFacts {
  template: 'EventInvitation.v1'
  invitationId: Uuid
  eventId: Uuid
  title: string
  hostName: string | null
  startsAt: Date
  place: string | null
  /** What the inviter, who need not be the host, wrote to the invitee, with line breaks. */
  message: string | null
  inviterName: string | null
  inviteUrl: string
}

/** What Mention.v1 says. `authorName` is null after the author has left. */
export interface MentionFacts {
  template: 'Mention.v1'
  commentId: Uuid
  eventId: Uuid
  title: string
  authorName: string | null
  excerpt: string
}

/** What DownloadReady.v1 says. */
export interface DownloadFacts {
  template: 'DownloadReady.v1'
  downloadId: Uuid
  kind: DownloadKind
  files: number
  bytes: number
  expiresAt: Date
}

/** What EventPurgeSoon.v1 says. */
export interface PurgeSoonFacts {
  template: 'EventPurgeSoon.v1'
  eventId: Uuid
  title: string
  /** Not before this time. */
  purgeAt: Date
}

export type Facts = InvitationFacts | MentionFacts | DownloadFacts | PurgeSoonFacts

export interface MailText {
  subject: string
  text: string
  html: string
}

/** What a mail has besides the facts. */
export interface MailParts {
  language: Language
  /** IANA name, in which times are said. */
  timeZone: string
  url: string
  /** An image of one pixel; none where null. */
  pixelUrl: string | null
  unsubscribeUrl: string
}
