import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { simpleParser } from 'mailparser'

/** A mail as the page shows it. `html` is for a sandboxed frame. */
export interface OutboxMail {
  /** The id of the notification. */
  id: string
  at: string
  from: string
  to: string
  subject: string
  html: string
  text: string
}

const MAX_MAILS = 50

/** The latest mails in a folder of .eml files, newest first. */
export async function readOutbox(folder: string): Promise<OutboxMail[]> {
  const names = await readdir(folder).catch(() => [])
  const files = await Promise.all(
    names
      .filter((name) => name.endsWith('.eml'))
      .map(async (name) => ({ name, at: await stat(join(folder, name)).then(({ mtime }) => mtime) })),
  )
  const latest = files.sort((a, b) => b.at.getTime() - a.at.getTime()).slice(0, MAX_MAILS)
  return Promise.all(latest.map(({ name, at }) => readMail(folder, name, at)))
}

async function readMail(folder: string, name: string, at: Date): Promise<OutboxMail> {
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
