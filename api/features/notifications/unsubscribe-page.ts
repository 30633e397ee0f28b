import { createHash } from 'node:crypto'
import type { RawReply } from '../../requests/bytes.ts'
import { type Language, languageOf } from './templates/template.ts'
import { escapeHtml } from './templates/text.ts'
import type { Unsubscription } from './unsubscribe-token.ts'

interface Words {
  title: string
  asks: Record<Unsubscription['template'], string>
  stop: string
  stopped: Record<Unsubscription['template'], string>
  undo: string
  resumed: string
}

const WORDS: Record<Language, Words> = {
  en: {
    title: 'E-mails from Keepsake',
    asks: {
      'EventInvitation.v1': 'Do you want no more e-mails about invitations to events?',
      'Mention.v1': 'Do you want no more e-mails about comments that mention you?',
      'DownloadReady.v1': 'Do you want no more e-mails about exports that are ready?',
      'EventPurgeSoon.v1': 'Do you want no more e-mails before archived events are deleted?',
    },
    stop: 'No more of these e-mails',
    stopped: {
      'EventInvitation.v1': 'You get no more e-mails about invitations to events.',
      'Mention.v1': 'You get no more e-mails about comments that mention you.',
      'DownloadReady.v1': 'You get no more e-mails about exports that are ready.',
      'EventPurgeSoon.v1': 'You get no more e-mails before archived events are deleted.',
    },
    undo: 'Undo',
    resumed: 'You get these e-mails again.',
  },
  de: {
    title: 'E-Mails von Keepsake',
    asks: {
      'EventInvitation.v1': 'Möchtest du keine E-Mails über Einladungen zu Events mehr bekommen?',
      'Mention.v1': 'Möchtest du keine E-Mails über Kommentare mehr bekommen, die dich erwähnen?',
      'DownloadReady.v1': 'Möchtest du keine E-Mails über fertige Exporte mehr bekommen?',
      'EventPurgeSoon.v1': 'Möchtest du keine E-Mails mehr bekommen, bevor archivierte Events gelöscht werden?',
    },
    stop: 'Keine dieser E-Mails mehr',
    stopped: {
      'EventInvitation.v1': 'Du bekommst keine E-Mails über Einladungen zu Events mehr.',
      'Mention.v1': 'Du bekommst keine E-Mails über Kommentare mehr, die dich erwähnen.',
      'DownloadReady.v1': 'Du bekommst keine E-Mails über fertige Exporte mehr.',
      'EventPurgeSoon.v1': 'Du bekommst keine E-Mails mehr, bevor archivierte Events gelöscht werden.',
    },
    undo: 'Rückgängig machen',
    resumed: 'Du bekommst diese E-Mails wieder.',
  },
}

const STYLE = `:root{color-scheme:light dark}
body{font:17px/1.5 system-ui,sans-serif;max-width:30rem;margin:15vh auto;padding:0 1.5rem}
button{font:inherit;padding:.6rem 1.1rem;border-radius:.5rem;border:1px solid currentColor;cursor:pointer}`
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** `asks` changes nothing: programs that scan mails follow its links. */
export type Step = 'asks' | 'stopped' | 'resumed'

/** The page of an unsubscribe link. `path`: of the link, with the base path. Works without JavaScript. */
export function unsubscribePage(
  step: Step,
  { template }: Pick<Unsubscription, 'template'>,
  { path, acceptLanguage }: { path: string; acceptLanguage: string | undefined },
): RawReply {
  const language = languageOf(acceptLanguage?.split(',', 1)[0]?.trim() ?? null) ?? 'en'
  const words = WORDS[language]
  const text = step === 'resumed' ? words.resumed : words[step][template]
  const form = (action: string, label: string) =>
    `<form method="post" action="${escapeHtml(action)}"><button>${escapeHtml(label)}</button></form>`
  const forms = { asks: form(path, words.stop), stopped: form(`${path}/undo`, words.undo), resumed: '' }
  const body = `<!doctype html>
<html lang="${language}">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="robots" content="noindex">
<title>${escapeHtml(words.title)}</title><style>${STYLE}</style></head>
<body><main><h1>${escapeHtml(words.title)}</h1><p>${escapeHtml(text)}</p>${forms[step]}</main></body>
</html>
`
  const headers = {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': POLICY,
    'Referrer-Policy': 'no-referrer',
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'private, no-store',
    Vary: 'Accept-Language',
  }
  return { status: 200, headers, body }
}
