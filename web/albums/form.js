import { call } from '../lib/api.js'
import { openDialog } from '../lib/dialogs.js'
import { Field, FormDialog, useForm } from '../lib/form.js'
import { html, useEffect, useState } from '../lib/html.js'
import { albumChanges, albumMistakes } from './words.js'

const REFUSALS = { CONFLICT: 'The event has an album already.' }
const VISIBILITIES = [
  ['organization', 'Everyone in the group'],
  ['participants', 'Those who take part in the event'],
  ['private', 'Only the owner, the owner of its event and the administrators'],
]

/** Asks for a new album, of `event` if it is given, or for changes of `album`. `onSaved` gets what the API made of it. */
export const editAlbum = (given) => openDialog((onClose) => html`<${AlbumForm} ...${given} onClose=${onClose} />`)

function AlbumForm({ org, album, event, onSaved, onClose }) {
  const events = useEvents(org, event, Boolean(album))
  const form = useForm({
    initial: {
      ...{ title: (album ?? event)?.title ?? '', description: album?.description ?? '' },
      ...{ event_id: (album ?? event)?.event_id ?? '', visibility: album?.visibility ?? 'organization' },
    },
    check: albumMistakes,
    async save(values, keyFor) {
      const changes = albumChanges(album, values)
      const path = `/api/orgs/${org.org_id}/albums`
      if (Object.keys(changes).length === 0) return onClose()
      const saved = album
        ? await call('PATCH', `${path}/${album.album_id}`, changes)
        : await call('POST', path, changes, keyFor([path, changes]))
      onClose()
      onSaved(saved)
    },
    words: REFUSALS,
  })
  const visibilities = VISIBILITIES.filter(([value]) => value !== 'participants' || !album || album.event_id)
  const hint =
    'You can change the rest later; the event is chosen once. Until you publish the album, only you, the owner of its event and the administrators see it. All members can see the photos themselves in the library.'
  return html`
    <${FormDialog} title=${album ? 'Edit album' : 'New album'} form=${form} label=${album ? 'Save' : 'Create draft'} onClose=${onClose}>
      <${Field} form=${form} name="title" label="Name" maxlength="200" required autofocus />
      <${Field} form=${form} name="description" label="About the album" hint="optional" rows="3" maxlength="5000" />
      ${!album && html`<${Field} form=${form} name="event_id" label="Event" hint="optional" options=${[...(event ? [] : [['', 'None']]), ...events.map((each) => [each.event_id, each.title])]} disabled=${Boolean(event)} />`}
      <${Field} form=${form} name="visibility" label="Who can see it, once it is published" options=${visibilities} />
      ${!album && html`<p class="muted small hint">${hint}</p>`}
    <//>`
}

/** The events that the person can see and that can have an album; `event` alone, if it is given. */
function useEvents(org, event, isChosen) {
  const [events, setEvents] = useState(event ? [event] : [])
  useEffect(() => {
    if (isChosen || event) return
    const listOf = (status) =>
      call('GET', `/api/orgs/${org.org_id}/events?${new URLSearchParams({ status, limit: '100' })}`)
    Promise.all(['active', 'draft'].map(listOf)).then(
      (lists) => setEvents(lists.flatMap((list) => list.events).filter((each) => !each.album_id)),
      () => {},
    )
  }, [])
  return events
}
