import { Dialog, openDialog } from './dialogs.js'
import { html } from './html.js'
import { toast } from './toast.js'

/**
 * Gives a link of this page away: to the share sheet of the device where there is one, else to the clipboard. `note` says
 * who can open it.
 */
export async function shareLink({ title, path, note = '' }) {
  const url = new URL(path, location.origin).href
  const isShared = await navigator.share?.({ title, url }).then(
    () => true,
    (error) => error.name === 'AbortError', // the person has closed the sheet
  )
  if (isShared) return
  try {
    await navigator.clipboard.writeText(url)
    toast(`The link is copied. ${note}`.trim())
  } catch {
    // Without the permission, the person copies what is selected.
    openDialog((onClose) => html`<${Link} url=${url} note=${note} onClose=${onClose} />`)
  }
}

const Link = ({ url, note, onClose }) => html`
  <${Dialog} title="Link" isNarrow onClose=${onClose}>
    <label class="field">Copy this link<input type="text" readonly value=${url} autofocus onFocus=${(event) => event.target.select()} /></label>
    <p class="muted">${note}</p>
  <//>`
