import { createHmac, timingSafeEqual } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { simpleParser } from 'mailparser'

/** A mail as the page shows it. */
export interface OutboxMail {
  /** The id of the notification. */
  id: string
  at: string
  from: string
  to: string
  subject: string
  /** Of its HTML, for a frame. It cannot be guessed, because a frame sends no key. */
  html_path: string
  text: string
}
interface Mail extends Omit<OutboxMail, 'html_path'> {
  html: string
}

const MAX_MAILS = 50

const proofOf = (id: string, key: string) => createHmac('sha256', key).update(id).digest('base64url')

/** The latest mails in a folder of .eml files, newest first. `key` makes the addresses of their HTML. */
export async function readOutbox(folder: string, key: string): Promise<OutboxMail[]> {
  const names = await readdir(folder).catch(() => [])
  const files = await Promise.all(
    names
      .filter((name) => name.endsWith('.eml'))
      .map(async (name) => ({ name, at: await stat(join(folder, name)).then(({ mtime }) => mtime) })),
  )
  const latest = files.sort((a, b) => b.at.getTime() - a.at.getTime()).slice(0, MAX_MAILS)
  const mails = await Promise.all(latest.map(({ name, at }) => readMail(folder, name, at)))
  return mails.map(({ html: _, ...mail }) => ({
    ...mail,
    html_path: `/mail/${proofOf(mail.id, key)}/${mail.id}.html`,
  }))
}

/** The HTML at a path that `readOutbox` has given; undefined for every other one. */
export async function readMailHtml(folder: string, key: string, path: string): Promise<string | undefined> {
  const [, proof = '', id = ''] = /^\/mail\/([\w-]{43})\/([\w-]{1,100})\.html$/.exec(path) ?? []
  if (proof === '' || !timingSafeEqual(Buffer.from(proof), Buffer.from(proofOf(id, key)))) return undefined
  const mail = await readMail(folder, `${id}.eml`, new Date()).catch(() => undefined)
  return mail && inNewTabs(mail.html)
}

/** Links of a mail open beside the page, as those of a mail program do. */
const inNewTabs = (html: string) => {
  const base = '<base target="_blank">'
  return /<head[^>]*>/i.test(html) ? html.replace(/<head[^>]*>/i, `$&${base}`) : base + html
}

/**
 * The policy of a mail in its frame: no scripts, no forms, and nothing from elsewhere but the pictures of `api`. `sandbox`
 * gives it an origin of its own, so that it reaches nothing of the page.
 */
export const mailSafety = (api: string): Record<string, string> => ({
  'Content-Security-Policy':
    `default-src 'none'; style-src 'unsafe-inline'; img-src data: ${new URL(api).origin}; form-action 'none'; ` +
    "base-uri 'none'; frame-ancestors 'self'; sandbox allow-popups allow-popups-to-escape-sandbox",
  'Content-Type': 'text/html; charset=utf-8',
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-store',
})

async function readMail(folder: string, name: string, at: Date): Promise<Mail> {
  const { from, to, subject, html, text } = await simpleParser(await readFile(join(folder, name)))
  return {
    id: name.slice(0, -'.eml'.length),
    at: at.toISOString(),
    from: from?.text ?? '',
    to: [to ?? []]
      .flat()
      .flatMap(({ value }) => value.map(({ address = '' }) => address))
      .join(', '),
    subject: subject ?? '',
    html: html || '',
    text: text ?? '',
  }
}
