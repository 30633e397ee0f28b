import { formatId } from '../../../../lib/contract/ids.ts'
import type { Rendered } from '../channel.ts'
import type { Sender } from './address.ts'

/** A mail to one address. Addresses are never texts to be parsed, which could name more than one. */
export interface Mail {
  from: Sender
  to: string
  subject: string
  text: string
  html: string
  /** The same for every attempt: mailbox providers may fold a message that arrives twice. */
  messageId: string
  headers: Readonly<Record<string, string>>
}

export const mailOf = (message: Rendered, o: { from: Sender; to: string; domain: string }): Mail => ({
  from: o.from,
  to: o.to,
  ...message.mail,
  messageId: `<${formatId('notification', message.id)}.email@${o.domain}>`,
  headers: {
    'Auto-Submitted': 'auto-generated',
    'Content-Language': message.language,
    // RFC 8058: the mail program posts to the address, without a login.
    'List-Unsubscribe': `<${message.unsubscribeUrl}>`,
    'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
  },
})
