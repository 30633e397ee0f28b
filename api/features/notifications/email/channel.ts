import { formatId } from '../../../../lib/contract/ids.ts'
import { isAddress } from '../../../requests/mail-address.ts'
import type { Channel, ChannelDeps, ChannelPart } from '../channel.ts'
import { findRecipient, mailAddressesOf } from '../queries.ts'
import { domainOf, type Sender } from './address.ts'
import { putIntoFolder } from './folder.ts'
import { type Mail, mailOf } from './mail.ts'
import { bytesOf, openSmtp, type SmtpOptions } from './nodemailer.ts'

export interface MailSettings {
  SMTP_URL?: string | undefined
  SMTP_REQUIRE_TLS: boolean
  MAIL_FOLDER?: string | undefined
  MAIL_FROM?: Sender | undefined
  /** Of the Message-ID; that of MAIL_FROM otherwise. */
  MAIL_DOMAIN?: string | undefined
}

/** From a minute to half a day, two days in all: a greylisting server is content after the second. */
const SCHEDULE = [60, 300, 1800, 7200, 21_600, 43_200, 86_400]
const CONNECTIONS = 4

/** E-mail by SMTP, or into a folder on one machine. */
export function emailPart(
  { settings }: Pick<ChannelDeps<MailSettings>, 'settings'>,
  smtp: Partial<Pick<SmtpOptions, 'ca' | 'timeouts'>> & { schedule?: readonly number[] } = {},
): ChannelPart {
  return {
    name: 'email',
    channel: openChannel(settings, smtp),
    offReason: 'no mail server is configured',
    destinationsOf: mailAddressesOf,
    async withhold(tx, notification, destination) {
      if (notification.userId === null) return undefined
      const { email } = await findRecipient(tx, notification)
      return email?.toLowerCase() === destination ? undefined : 'the user has another address now'
    },
  }
}

function openChannel(
  { SMTP_URL, SMTP_REQUIRE_TLS, MAIL_FOLDER, MAIL_FROM: from, MAIL_DOMAIN }: MailSettings,
  { schedule = SCHEDULE, ...o }: Parameters<typeof emailPart>[1] & object,
): Channel | undefined {
  if (!from || (SMTP_URL === undefined && MAIL_FOLDER === undefined)) return undefined
  const domain = MAIL_DOMAIN ?? domainOf(from.address)
  const server =
    SMTP_URL === undefined
      ? undefined
      : openSmtp({ ...o, url: SMTP_URL, requireTls: SMTP_REQUIRE_TLS, most: CONNECTIONS })
  const pass = async (mail: Mail, name: string, signal: AbortSignal) =>
    server ? server.deliver(mail, signal) : putIntoFolder(MAIL_FOLDER ?? '', name, await bytesOf(mail))
  return {
    name: 'email',
    schedule,
    isIdempotent: false,
    concurrency: CONNECTIONS,
    async send(message, { address: to }, signal) {
      if (!isAddress(to)) return { is: 'refused', reason: 'not an address that mail can be sent to' }
      return pass(mailOf(message, { from, to, domain }), formatId('notification', message.id), signal)
    },
    close: async () => server?.close(),
  }
}
