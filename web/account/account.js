import { call } from '../lib/api.js'
import { openDialog } from '../lib/dialogs.js'
import { Field, FormDialog, useForm } from '../lib/form.js'
import { html } from '../lib/html.js'
import { Intro } from '../lib/parts.js'
import { keep } from '../lib/session.js'
import { forgetPerson } from '../shell/forget.js'

/** What has to be typed: a click alone must not end an account. */
const WORDS = 'delete my account'

const GOES = [
  'your photos and videos, also in albums and highlights of others',
  'your comments, reactions, captions and mentions of you',
  'your invitations, notifications and devices',
  'your name, your e-mail address and your memberships',
]
const STAYS = [
  'what others have made: their photos, albums, events and comments',
  'your events with others, and albums with photos of others: another member becomes the owner, and your words go',
]

/** The person's own account. */
export function Account({ me }) {
  const open = () => openDialog((close) => html`<${DeleteDialog} me=${me} onClose=${close} />`)
  return html`
    <section class="view-account" aria-label="Account">
      <${Intro} title="Account" text=${[me.display_name, me.email].filter(Boolean).join(', ')} />
      <section class="account-end" aria-labelledby="account-end">
        <h2 id="account-end">Delete my account</h2>
        <p>You are signed out everywhere at once. It cannot be undone.</p>
        <h3>What goes</h3>
        <ul>${GOES.map((text) => html`<li key=${text}>${text}</li>`)}</ul>
        <h3>What stays</h3>
        <ul>${STAYS.map((text) => html`<li key=${text}>${text}</li>`)}</ul>
        <button class="button" type="button" onClick=${open}>Delete my account…</button>
      </section>
    </section>`
}

function DeleteDialog({ me, onClose }) {
  const form = useForm({
    initial: { confirmation: '' },
    check: ({ confirmation }) =>
      confirmation.trim().toLowerCase() === WORDS ? {} : { confirmation: `Type “${WORDS}”.` },
    async save(_, keyFor) {
      const body = { user_id: me.user_id, confirm: true }
      await call('POST', '/gdpr/anonymize', body, keyFor(['/gdpr/anonymize', body])).catch((error) => {
        throw error.code === 'CONFLICT' ? new Error(lastOwner(error)) : error
      })
      onClose()
      keep(null)
      forgetPerson()
      dispatchEvent(new CustomEvent('keepsake:signed-out', { detail: 'Your account is deleted.' }))
    },
  })
  return html`
    <${FormDialog} title="Delete my account" form=${form} label="Delete for good" onClose=${onClose} isNarrow>
      <${Field} form=${form} name="confirmation" label=${`Type “${WORDS}” to confirm`} autocomplete="off" required />
    <//>`
}

/** Which groups have to get another owner first. */
function lastOwner(error) {
  const names = (error.details ?? []).map((one) => one.org_name).filter(Boolean)
  return `You are the only owner of ${names.join(', ') || 'a group'}. Make another member an owner first.`
}
