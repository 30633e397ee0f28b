import { chooseForHighlight } from '../highlights/form.js'
import { HighlightShelf } from '../highlights/shelf.js'
import { call, patiently } from '../lib/api.js'
import { ask } from '../lib/dialogs.js'
import { useInGroups } from '../lib/find-in-groups.js'
import { keepFocus } from '../lib/focus.js'
import { html, useEffect, useReducer, useRef, useState } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { Menu } from '../lib/menu.js'
import { Empty, Problem, Wait } from '../lib/parts.js'
import { may } from '../lib/permissions.js'
import { inWords, isMediaGone, leftOut } from '../lib/refusals.js'
import { announce, toast, toastNext } from '../lib/toast.js'
import { plural } from '../lib/words.js'
import { pickMedia } from '../library/picker.js'
import { linkToEvent, linkToHighlight } from '../shell/views.js'
import { openViewer, refreshViewer } from '../viewer/viewer.js'
import { editAlbum } from './form.js'
import { AlbumItems } from './items.js'
import { newAlbumMedia } from './store.js'
import * as words from './words.js'

const LOOK_MS = 5000
const BUSY_MS = 1500
const say = (error) => inWords(error, words.ALBUM_REFUSALS)

/**
 * An album, kept up to date: others add meanwhile, and what they add is being converted. `onOpened(find, open)`, if given,
 * is called once it is shown.
 */
export function Album({ id, me, onOpened, ...given }) {
  const [, draw] = useReducer((count) => count + 1, 0)
  const [isArranging, setArranging] = useState(false)
  const media = useRef()
  const event = useRef()
  const items = useRef()
  const latest = useRef({})
  const every = () => (media.current.isConverting() && !media.current.isLarge() ? BUSY_MS : LOOK_MS)
  const beside = async (album, { org, path }) => {
    media.current ??= newAlbumMedia(path, {
      onChanged: draw,
      onTaken: refreshViewer,
      onSaved: () => void latest.current.reload(),
    })
    ;[event.current] = await Promise.all([eventOf(album, org), media.current.look(album)])
  }
  const found = useInGroups(
    (org) => `/api/orgs/${org.org_id}/albums/${encodeURIComponent(id)}`,
    { id, ...given },
    every,
    beside,
  )
  const { data: album, error } = found
  latest.current = { ...found, album, me, event: event.current, media: media.current, items }
  const does = useRef()
  does.current ??= actionsOf(latest)
  useEffect(() => {
    if (album) document.title = `${album.title} · Keepsake`
  }, [album?.title])
  useEffect(() => {
    if (album) onOpened?.(media.current.find, does.current.open)
  }, [Boolean(album)])

  const isGone = error?.status === 404 || error?.status === 403
  const mayEdit = may(album, 'album.update')
  const shown = { album, event: event.current, org: found.org, isArranging: isArranging && mayEdit, does: does.current }
  return html`
    <section class="view-album" aria-label="Album" data-status=${album?.status}>
      <p class="back"><a class="button quiet" href="#albums"><${Icon} name="back" size="18" />All albums</a></p>
      ${isGone && html`<${Empty} title="This album cannot be shown" text="This album does not exist, or it is not published for you." />`}
      ${!isGone && html`<${Problem} class="banner" error=${error} />`}
      ${!album && !error && html`<${Wait} />`}
      ${
        album &&
        !isGone &&
        html`
          <${Head} ...${shown} onArrange=${() => setArranging(!isArranging)} />
          <${HighlightShelf} org=${found.org} albumId=${id} />
          ${shown.isArranging && html`<p class="muted small album-hint">Drag the photos, or use the buttons on them.<span class="wide-only"> With the keyboard: arrow keys on <${Icon} name="handle" size="14" /></span></p>`}
          ${
            album.media_count === 0
              ? html`<${Empty} title="Nothing in here yet" text="Add photos and videos from the library of the group.">${may(album, 'album.add_media') && html`<button class="button primary" type="button" onClick=${does.current.add}>Choose photos</button>`}<//>`
              : html`<${AlbumItems} media=${media.current} coverId=${album.cover_media_id} mayEdit=${mayEdit} isArranging=${shown.isArranging} does=${does.current} handle=${items} />`
          }`
      }
    </section>`
}

/** A draft event of another person is as good as none. */
const eventOf = ({ event_id: id }, org) =>
  id &&
  call('GET', `/api/orgs/${org.org_id}/events/${id}`).catch((error) => {
    if (error.status !== 404) throw error
  })

function Head({ album, event, org, isArranging, does, onArrange }) {
  const steps = words.stepsOf(album)
  const [next] = steps.filter((step) => step.isNext)
  const mayAdd = may(album, 'album.add_media')
  const mayEdit = may(album, 'album.update')
  const isEmpty = album.media_count === 0
  const note = words.noteOn(album, event)
  const rare = [
    mayEdit && ['Edit', does.edit],
    ...steps.filter((step) => step !== next).map((step) => [step.label, () => does.setStatus(step)]),
    may(album, 'album.delete') && ['Delete album', does.removeAlbum, true],
  ]
  return html`
    <header class="head">
      <div class="words">
        <p class="chips"><span id="album-state" class="chip badge-state">${words.STATUSES[album.status]}</span><span class="chip">${words.audienceOf(album)}</span></p>
        <h1 id="album-title" tabindex="-1" dir="auto">${album.title}</h1>
        <p class="muted facts"><span id="album-count">${words.itemsOf(album)} · ${org.name}</span>${event && html`<a href=${linkToEvent(event.event_id)} dir="auto">${event.title}</a>`}</p>
      </div>
      <div class="tools">
        ${mayAdd && html`<button class=${`button ${isEmpty || !next ? 'primary' : ''}`} type="button" onClick=${does.add}>Add photos</button>`}
        ${!isEmpty && may(album, 'highlight.create_in_album') && html`<button class="button" type="button" onClick=${does.highlight}>Make a highlight</button>`}
        ${mayEdit && !isEmpty && html`<button class="button" type="button" aria-pressed=${String(isArranging)} onClick=${onArrange}>${isArranging ? 'Done' : 'Arrange'}</button>`}
        ${next && html`<button class="button primary" type="button" onClick=${() => does.setStatus(next)}>${next.label}</button>`}
        <${Menu} items=${rare} />
      </div>
    </header>
    ${note && html`<p class="note-line">${note}</p>`}
    ${album.description && html`<p class="description" dir="auto">${album.description}</p>`}`
}

/** What can be done in the album that `at.current` has: {album, event, org, path, me, media, items, reload, set}. */
function actionsOf(at) {
  /** Runs a change, says what was wrong with it, and shows what has become of the album. Returns whether it was made. */
  async function change(work) {
    try {
      await work(at.current)
    } catch (error) {
      toast(say(error))
      void at.current.reload()
      return false
    }
    void at.current.reload()
    return true
  }
  const does = {
    open: (id) => openViewer(at.current.media.find(id), viewing),
    refresh: (m) => at.current.media.refresh(m),
    saveCaption: (m, caption) =>
      change(async ({ path, media }) => {
        await call('PATCH', `${path}/media/${m.media_id}`, { caption })
        media.put(m.media_id, { ...m, caption })
      }),
    chooseCover: (m) => change(async ({ path, set }) => set(await call('PATCH', path, { cover_media_id: m.media_id }))),
    remove: (m) =>
      change(async ({ path, media }) => {
        await call('DELETE', `${path}/media/${m.media_id}`)
        media.put(m.media_id, undefined)
        toast('It is no longer in the album. It stays in the library.')
      }),
    edit: () => editAlbum({ org: at.current.org, album: at.current.album, onSaved: at.current.set }),
    setStatus: (step) =>
      ask({
        ...words.questionOf(step, at.current.album),
        async run() {
          await call('PUT', '/api/v1/albums/status', { album_id: at.current.album.album_id, status: step.to })
          announce(`The album is ${words.STATUSES[step.to].toLowerCase()}`)
          await at.current.reload()
          keepHere()
        },
        say,
      }),
    removeAlbum: () =>
      ask({
        title: `Delete “${at.current.album.title}”?`,
        text: 'Its order and its captions cannot be brought back. The photos stay in the library; highlights of the album stay with those who made them.',
        label: 'Delete album',
        async run() {
          await call('DELETE', at.current.path)
          toastNext('The album is deleted')
          location.replace('#albums')
        },
        say,
      }),
    highlight() {
      const { org, album, event } = at.current
      void chooseForHighlight({ org, album, event, onMade: (id) => location.assign(linkToHighlight(id)) })
    },
    add: () => addMedia(at.current),
  }
  const viewing = viewingOf(at)
  return does
}

const keepHere = () => keepFocus(() => document.getElementById('album-title'))

/** The album as the viewer goes through it. What is in the album of an event can be discussed there. */
const viewingOf = (at) => ({
  get discussed() {
    const { org, me, event } = at.current
    return (
      event && {
        event: () => at.current.event ?? event,
        org,
        me,
        path: `/api/orgs/${org.org_id}/events/${event.event_id}`,
      }
    )
  },
  find: (id) => at.current.media.find(id),
  neighbour(id, step) {
    const items = at.current.media.items()
    const index = items.findIndex((m) => m.media_id === id)
    if (index < 0) return {}
    const item = items[index + step]
    return item || index + step < 0 || !at.current.media.hasMore() ? { item } : { missing: true }
  },
  load: () => at.current.media.more(),
  refresh: (m) => at.current.media.refresh(m),
  captionOf: (m) => at.current.media.find(m.media_id)?.caption,
  closed: (id) => at.current.items.current?.focus(id),
})

function addMedia({ org, album, path, media, reload }) {
  const inAlbum = new Set(media.items().map((m) => m.media_id))
  let gone = 0
  let reloaded
  const ifGone = (error) => {
    if (!isMediaGone(error)) throw error
    gone++
  }
  pickMedia({
    org,
    title: `Add to “${album.title}”`,
    label: 'Add',
    has: (id) => inAlbum.has(id),
    say,
    async run(chosen, show, signal) {
      try {
        for (const [i, m] of chosen.entries()) {
          signal.throwIfAborted()
          show(`Adding ${i + 1} of ${chosen.length}`)
          await patiently(() => call('POST', `${path}/media`, { media_id: m.media_id }))
            .catch(ifThere)
            .catch(ifGone)
          inAlbum.add(m.media_id)
          show(`Adding ${i + 1} of ${chosen.length}`, m)
        }
      } finally {
        reloaded = reload()
      }
    },
    onChosen(chosen) {
      if (gone > 0) toast(`${plural(chosen.length - gone, 'item')} added${leftOut(gone)}`)
      // The button that opened the dialog may go with the next state of the album.
      void reloaded?.then(keepHere)
    },
  })
}

/** Someone else has added it meanwhile. */
const ifThere = (error) => {
  if (error.code !== 'CONFLICT') throw error
}
