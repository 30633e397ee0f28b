import { link } from '../lib/api.js'
import { Dialog, openDialog } from '../lib/dialogs.js'
import { html, useEffect, useRef, useState } from '../lib/html.js'
import { announce } from '../lib/toast.js'
import { demoKey } from '../shell/sign-in.js'
import { linkLeft } from './words.js'

/** Shows the link of an invitation with its QR code. It is a credential, so it is kept nowhere else than in the dialog. */
export function showLink(given) {
  openDialog((close) => html`<${Link} ...${given} onClose=${close} />`)
}

/** `made` is the API's answer. `onAnother` is given for the link of a new invitation. */
export function Link({ made, name, event, onAnother, onClose }) {
  const [isCopied, setCopied] = useState(false)
  const [now, setNow] = useState(Date.now)
  const field = useRef()
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 5000)
    return () => clearInterval(timer)
  }, [])
  async function copy() {
    try {
      await navigator.clipboard.writeText(made.invite_url)
      setCopied(true)
      announce('The link is copied')
    } catch {
      // Without the permission, the person copies what is selected.
      field.current.select()
    }
  }
  const hint =
    event.status === 'draft'
      ? 'Send the link yourself. It can be answered once the event is active.'
      : 'Send the link yourself, or let them scan the code. It works for one answer.'
  const key = demoKey()
  return html`
    <${Dialog} class="invite" title=${onAnother ? `${name} is invited` : `New link for ${name}`} onClose=${onClose}>
      <p class="muted">${hint}</p>
      ${made.qr_png_url && html`<img class="qr" src=${link(made.qr_png_url)} alt="QR code of the link" width="512" height="512" />`}
      <p class="left-row"><span class="chip">${linkLeft(made.token_expires_at, now)}</span></p>
      <div class="copy-row">
        <input ref=${field} type="text" readonly aria-label="Link" value=${made.invite_url} />
        <button class="button primary" type="button" autofocus onClick=${copy}>${isCopied ? 'Copied' : 'Copy'}</button>
      </div>
      ${/* In the demo a person answers their own invitations: the key shows the accounts in the other window. */ key && html`<p class="small"><a href=${`${made.invite_url}&${new URLSearchParams({ key })}`} target="_blank" rel="noopener noreferrer">Open it as someone else, in a new tab</a></p>`}
      <footer class="sheet-foot">
        ${onAnother && html`<button class="button" type="button" onClick=${onAnother}>Invite someone else</button>`}
        <button class="button" type="button" onClick=${onClose}>Done</button>
      </footer>
    <//>`
}
