import { html, useEffect, useState } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { Empty, Intro, Wait } from '../lib/parts.js'
import { usePolled } from '../lib/poll.js'
import { demoKey } from '../shell/sign-in.js'
import { linkToMail } from '../shell/views.js'

const LOOK_MS = 3000
const PICTURE = html`<rect x="10" y="11" width="44" height="28" rx="5" /><path d="m11 14 21 15 21-15" />`

/** The mails that the platform has "sent" on this machine. No API: the server of the page reads a folder. */
async function look() {
  const response = await fetch('/outbox.json', { headers: { 'X-Page-Key': demoKey() ?? '' } })
  if (!response.ok) throw Object.assign(new Error('The outbox cannot be read.'), { status: response.status })
  return (await response.json()).mails
}

const timeOf = (iso) => new Date(iso).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' })

/** The list of the mails of the demo, newest first. */
export function Outbox() {
  const { data: mails } = usePolled(look, [], LOOK_MS)
  return html`
    <section class="view-outbox" aria-label="Outbox">
      <${Intro} title="Outbox" text="E-mail that the platform has sent. On this machine, it stays in a folder." />
      ${!mails && html`<${Wait} />`}
      ${mails?.length === 0 && html`<${Empty} title="No mail yet" text="Invite someone to an active event by e-mail: what they would get appears here." picture=${PICTURE} />`}
      <ul class="mails" aria-label="Mails">
        ${mails?.map(
          ({ id, subject, to, at }) => html`
            <li key=${id} class="mail-row">
              <a href=${linkToMail(id)}>
                <span class="mail-icon" aria-hidden="true"><${Icon} name="mail" /></span>
                <strong class="mail-subject" dir="auto">${subject}</strong>
                <span class="muted small mail-to" dir="auto">To ${to}</span>
                <time class="muted small mail-time" datetime=${at}>${timeOf(at)}</time>
              </a>
            </li>`,
        )}
      </ul>
    </section>`
}

/** One mail as a mail program shows it. */
export function Mail({ id }) {
  const { data: mails } = usePolled(look, [id], 0)
  const [part, setPart] = useState('html')
  const mail = mails?.find((one) => one.id === id)
  useEffect(() => {
    if (mail) document.title = `${mail.subject} · Keepsake`
  }, [mail?.subject])
  const choice = (name, label) =>
    html`<button class="button" type="button" aria-pressed=${String(part === name)} onClick=${() => setPart(name)}>${label}</button>`
  return html`
    <section class="view-mail" aria-label="Mail">
      <p class="back"><a class="button quiet" href="#outbox"><${Icon} name="back" size="18" />All mail</a></p>
      ${!mails && html`<${Wait} />`}
      ${mails && !mail && html`<${Empty} title="This mail is not there" text="It is of an earlier start, or not of this demo." />`}
      ${
        mail &&
        html`
          <header class="mail-head">
            <h1 tabindex="-1" dir="auto">${mail.subject}</h1>
            <dl class="muted small"><dt>From</dt><dd dir="auto">${mail.from}</dd><dt>To</dt><dd dir="auto">${mail.to}</dd><dt>Sent</dt><dd><time datetime=${mail.at}>${timeOf(mail.at)}</time></dd></dl>
            <div class="tools" role="group" aria-label="Part">${choice('html', 'As it looks')}${choice('text', 'As text')}</div>
          </header>
          ${
            part === 'html'
              ? html`<iframe class="mail-frame" title=${`Mail: ${mail.subject}`} sandbox="allow-popups allow-popups-to-escape-sandbox" src=${mail.html_path}></iframe>`
              : html`<pre class="mail-text" dir="auto">${linked(mail.text)}</pre>`
          }`
      }
    </section>`
}

/** Links of the text can be followed, as mail programs let one. */
const linked = (text) =>
  text
    .split(/(https?:\/\/[^\s<>"]+)/)
    .map((part, i) => (i % 2 ? html`<a href=${part} target="_blank" rel="noreferrer">${part}</a>` : part))
