import * as z from 'zod'
import { flag, json } from '../../../lib/runtime/config.ts'
import { GuardSettings } from '../../../lib/runtime/guarded-http/settings.ts'
import { LinkKeys } from '../../config.ts'
import { isAddress } from '../../requests/mail-address.ts'
import { parseSender } from './email/address.ts'
import { PushSettings } from './push/settings.ts'
import { LANGUAGES } from './templates/template.ts'

const web = z.url({ protocol: /^https?$/ })

/** The part of the worker's environment that notifications read. */
export const NotificationSettings = z.object({
  PUBLIC_URL: web.optional().describe('As for the API. Without it, or without LINK_KEYS, no notification is sent'),
  BASE_PATH: z
    .string()
    .regex(/^(\/[a-z0-9-]+)+$/)
    .default('/v1'),
  APP_URL: web.optional(),
  LINK_KEYS: json(LinkKeys).optional(),
  SMTP_URL: z
    .string()
    .regex(/^smtps?:\/\/[^\s/]+\/?$/, 'must be smtp://user:password@host:port or smtps://…')
    .refine((text) => URL.canParse(text), 'must be an address; signs of the password are percent-encoded')
    .optional()
    .describe('The server that e-mail is sent through. Without it and MAIL_FOLDER, no e-mail is sent'),
  SMTP_REQUIRE_TLS: flag.default(true).describe('For smtp:// whether a server without STARTTLS gets no mail'),
  MAIL_FOLDER: z.string().optional().describe('E-mail becomes .eml files there, without SMTP_URL; for one machine'),
  MAIL_FROM: z
    .string()
    .transform((text, ctx) => {
      const sender = parseSender(text)
      if (sender) return sender
      ctx.addIssue({ code: 'custom', message: 'must be an address, or a name and <address>' })
      return z.NEVER
    })
    .optional(),
  MAIL_DOMAIN: z
    .string()
    .refine((text) => isAddress(`x@${text}`), 'must be a domain name')
    .optional(),
  MAIL_LANGUAGE: z.enum(LANGUAGES).default('en').describe('For recipients whose language is not known'),
  MAIL_TIME_ZONE: z
    .string()
    .refine(isTimeZone, 'must be a time zone such as Europe/Berlin')
    .default('UTC')
    .describe('In which messages say times'),
  ...PushSettings.shape,
  ...GuardSettings.shape,
})
export type NotificationSettings = z.output<typeof NotificationSettings>

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }) !== undefined
  } catch {
    return false
  }
}
