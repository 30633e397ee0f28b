import { call } from '../lib/api.js'
import { openDialog } from '../lib/dialogs.js'
import { Field, FormDialog, useForm } from '../lib/form.js'
import { html } from '../lib/html.js'
import { changesOf, fieldsOf, mistakesIn, usualStart } from './words.js'

/** Asks for a new event, or for changes of `event`. `onSaved` gets what the API made of it. */
export function editEvent(given) {
  openDialog((close) => html`<${Form} ...${given} onClose=${close} />`)
}

function Form({ org, event, onSaved, onClose }) {
  const form = useForm({
    initial: fieldsOf(event ?? { start_at: usualStart(Date.now()) }),
    check: mistakesIn,
    async save(values, keyFor) {
      const changes = changesOf(event, values)
      if (Object.keys(changes).length === 0) return onClose()
      const path = `/api/orgs/${org.org_id}/events`
      const saved = event
        ? await call('PUT', `${path}/${event.event_id}`, changes)
        : await call('POST', path, changes, keyFor([path, changes]))
      onClose()
      onSaved(saved)
    },
  })
  return html`
    <${FormDialog} title=${event ? 'Edit event' : 'New event'} form=${form} label=${event ? 'Save' : 'Create draft'} onClose=${onClose}>
      <${Field} form=${form} name="title" label="Title" maxlength="200" required autofocus dir="auto" />
      <div class="pair">
        <div><${Field} form=${form} name="start_at" label="Starts" type="datetime-local" required /></div>
        <div><${Field} form=${form} name="end_at" label="Ends" hint="optional" type="datetime-local" /></div>
      </div>
      <${Field} form=${form} name="location_name" label="Place" hint="optional" maxlength="300" dir="auto" />
      <${Field} form=${form} name="description" label="Description" hint="optional" rows="4" maxlength="5000" dir="auto" />
      ${!event && html`<p class="muted small hint">You can change everything later. Until you activate the event, only you and the administrators see it.</p>`}
    <//>`
}
