import { escapeHtml } from './text.ts'

/** What the layout arranges: plain text throughout, which it escapes. */
export interface Mail {
  lang: string
  subject: string
  /** What a list of mails shows behind the subject. */
  preheader: string
  lead: string
  title: string
  details: readonly { label: string; value: string }[]
  quote: { label: string; text: string } | undefined
  button: { label: string; url: string; byHand: string }
  why: string
  unsubscribe: { label: string; url: string }
  pixelUrl: string | null
}

const FONT = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
// Neither pure white nor black: programs that invert the colors of a mail by themselves leave these readable.
const STYLE = `:root{color-scheme:light dark;supported-color-schemes:light dark}
@media (prefers-color-scheme:dark){.page{background:#1b1c20!important}.card{background:#26272d!important}
.ink{color:#ececf1!important}.soft{color:#b3b3bf!important}.quote{border-color:#55566a!important}.link{color:#a9b8ff!important}}`

/** HTML of a few kilobytes, whose only image carries no meaning. `dir="auto"`: a text in Arabic runs its own way. */
export function htmlOf(m: Mail): string {
  const e = escapeHtml
  const line = (text: string) => e(text).replaceAll('\n', '<br>')
  const details = m.details.map(
    ({
      label,
      value,
    }) => `<tr><td class="soft" style="padding:2px 12px 2px 0;color:#5d5d6b;vertical-align:top">${e(label)}</td>
<td class="ink" dir="auto" style="padding:2px 0;color:#26262e">${e(value)}</td></tr>`,
  )
  return `<!doctype html>
<html lang="${e(m.lang)}" dir="ltr">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<title>${e(m.subject)}</title>
<style>${STYLE}</style>
</head>
<body class="page" style="margin:0;padding:0;background:#f3f3f6">
<div style="display:none;max-height:0;overflow:hidden;opacity:0">${e(m.preheader)}</div>
<table role="presentation" width="100%" cellpadding="0" cellspacing="0" class="page" style="background:#f3f3f6">
<tr><td align="center" style="padding:24px 12px">
<table role="presentation" width="100%" cellpadding="0" cellspacing="0" class="card" style="max-width:560px;background:#fcfcfe;border-radius:12px">
<tr><td style="padding:28px 28px 8px;${FONT};font-size:16px;line-height:1.5">
<p class="soft" dir="auto" style="margin:0;color:#5d5d6b">${e(m.lead)}</p>
<h1 class="ink" dir="auto" style="margin:4px 0 16px;font-size:24px;line-height:1.25;color:#26262e">${e(m.title)}</h1>
${details.length > 0 ? `<table role="presentation" cellpadding="0" cellspacing="0" style="${FONT};font-size:16px">${details.join('\n')}</table>` : ''}
${
  m.quote
    ? `<p class="soft" dir="auto" style="margin:16px 0 4px;color:#5d5d6b">${e(m.quote.label)}</p>
<blockquote class="quote ink" dir="auto" style="margin:0;padding:4px 0 4px 14px;border-left:3px solid #c9c9d6;color:#26262e">${line(m.quote.text)}</blockquote>`
    : ''
}
<p style="margin:24px 0 12px"><a href="${e(m.button.url)}" style="display:inline-block;padding:12px 20px;border-radius:8px;background:#3f51c5;color:#fbfbfe;text-decoration:none;font-weight:600">${e(m.button.label)}</a></p>
<p class="soft" style="margin:0 0 20px;font-size:13px;color:#5d5d6b;word-break:break-all">${e(m.button.byHand)}<br><a class="link" href="${e(m.button.url)}" style="color:#3f51c5">${e(m.button.url)}</a></p>
</td></tr></table>
<p class="soft" style="max-width:560px;margin:16px auto 0;${FONT};font-size:12px;line-height:1.5;color:#5d5d6b">${e(m.why)}<br><a class="link" href="${e(m.unsubscribe.url)}" style="color:#3f51c5">${e(m.unsubscribe.label)}</a></p>
${m.pixelUrl === null ? '' : `<img src="${e(m.pixelUrl)}" width="1" height="1" alt="" style="display:block;border:0">`}
</td></tr></table>
</body>
</html>
`
}

/** The same as plain text, complete. */
export function textOf(m: Mail): string {
  const parts = [
    `${m.lead}\n${m.title}`,
    m.details.map(({ label, value }) => `${label}: ${value}`).join('\n'),
    m.quote ? `${m.quote.label}\n${m.quote.text.replace(/^/gm, '> ')}` : '',
    `${m.button.label}:\n${m.button.url}`,
    `-- \n${m.why}\n${m.unsubscribe.label}: ${m.unsubscribe.url}`,
  ]
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`
}
