import { formatId } from '../../../lib/contract/ids.ts'
import type { NotificationRow } from '../../db/schema/notifications.ts'
import { invitationLinks, type LinkSettings } from '../invitations/links.ts'
import type { Rendered } from './channel.ts'
import type { Gathered } from './gather.ts'
import { cleanFacts, render } from './templates/render.ts'
import {
  type DownloadFacts,
  type Facts,
  type InvitationFacts,
  type Language,
  languageOf,
} from './templates/template.ts'
import { hashOfAddress, unsubscribeToken } from './unsubscribe-token.ts'

export interface ComposeSettings extends Omit<LinkSettings, 'INVITATION_QR'> {
  /** For recipients whose language is not known. */
  MAIL_LANGUAGE: Language
  MAIL_TIME_ZONE: string
}

/** Makes the message of what was gathered. Mints the link of an invitation, which nothing stores. */
export function composer(settings: ComposeSettings) {
  const { PUBLIC_URL, BASE_PATH, APP_URL = PUBLIC_URL, LINK_KEYS, MAIL_LANGUAGE, MAIL_TIME_ZONE } = settings
  const links = invitationLinks({ ...settings, INVITATION_QR: false })
  const api = `${PUBLIC_URL}${BASE_PATH}`

  async function factsOf(gathered: Gathered): Promise<{ facts: Facts; token?: string; linkExpiresAt: Date | null }> {
    if (gathered.template !== 'EventInvitation.v1') {
      const { locale: _, ...facts } = gathered
      return { facts, linkExpiresAt: null }
    }
    const { id, slug, generation, tokenExpiresAt, ...rest } = gathered.invitation
    const content = { id, generation, expires: tokenExpiresAt.getTime() / 1000 }
    const token = await links.mintToken(content)
    const inviteUrl = await links.inviteUrl({ ...content, slug })
    const facts = { template: gathered.template, invitationId: id, ...rest, inviteUrl }
    return { facts, token, linkExpiresAt: tokenExpiresAt }
  }

  return async (notification: NotificationRow, gathered: Gathered, destination: string): Promise<Rendered> => {
    const { facts: raw, token, linkExpiresAt } = await factsOf(gathered)
    const facts = cleanFacts(raw)
    const { id, orgId, template, userId, email, phoneNumber, createdAt } = notification
    const language = languageOf(gathered.locale) ?? MAIL_LANGUAGE
    const name = formatId('notification', id)
    // In the fragment: a scanner or proxy that follows the link gets no token, and the server that redirects none either.
    const url =
      facts.template === 'EventInvitation.v1' ? `${api}/e/c/${name}#t=${token}` : `${APP_URL}/#${viewOf(facts)}`
    const who = userId === null ? { addressHash: hashOfAddress(destination) } : { userId }
    const unsubscribeUrl = `${api}/u/${unsubscribeToken(LINK_KEYS, { template, who })}`
    const pixelUrl = facts.template === 'EventInvitation.v1' ? `${api}/e/o/${name}` : null
    const texts = render(facts, { language, timeZone: MAIL_TIME_ZONE, url, pixelUrl, unsubscribeUrl })
    return {
      id,
      orgId,
      template,
      recipient: { userId, email, phoneNumber },
      language,
      facts,
      url,
      linkExpiresAt,
      createdAt,
      ...texts,
      unsubscribeUrl,
    }
  }
}
/** The view of the page, by its name in the address. A download takes a sign-in: its mail opens nothing by itself. */
const viewOf = (facts: Exclude<Facts, InvitationFacts>): string | URLSearchParams =>
  facts.template === 'DownloadReady.v1'
    ? DOWNLOAD_VIEWS[facts.kind]
    : new URLSearchParams({ event: formatId('event', facts.eventId) })
const DOWNLOAD_VIEWS: Record<DownloadFacts['kind'], string> = { data: 'my-data', audit: 'audit' }

export type Compose = ReturnType<typeof composer>
