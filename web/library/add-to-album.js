import { editAlbum } from '../albums/form.js'
import { call, patiently } from '../lib/api.js'
import { Dialog, openDialog } from '../lib/dialogs.js'
import { html, useEffect, useRef, useState } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { usePages } from '../lib/pages.js'
import { More, Problem, Wait } from '../lib/parts.js'
import { may } from '../lib/permissions.js'
import { inWords, isMediaGone, leftOut } from '../lib/refusals.js'
import { session } from '../lib/session.js'
import { toast } from '../lib/toast.js'
import { plural } from '../lib/words.js'
import { linkToAlbum } from '../shell/views.js'

/** Asks for an album, and adds media items to it. */
export const addToAlbum = (given) => openDialog((onClose) => html`<${AlbumChoice} ...${given} onClose=${onClose} />`)

function AlbumChoice({ org, items, onDone, onClose }) {
  const list = usePages(`/api/orgs/${org.org_id}/albums`, 'albums', { query: { limit: '48' } })
  const [progress, setProgress] = useState()
  const [problem, setProblem] = useState()
  const isGone = useRef(false)
  useEffect(
    () => () => {
      isGone.current = true
    },
    [],
  )
  const albums = list.items?.filter((album) => may(album, 'album.add_media', album.status !== 'ARCHIVE'))
  async function add(album) {
    setProblem(undefined)
    const of = session()?.id
    // What one person has begun goes on for no other.
    const isOver = () => session()?.id !== of
    let gone = 0
    const ifGone = (error) => {
      if (!isMediaGone(error)) throw error
      gone++
    }
    try {
      for (const [i, m] of items.entries()) {
        if (isOver()) return
        setProgress(`Adding ${i + 1} of ${items.length}`)
        const path = `/api/orgs/${org.org_id}/albums/${album.album_id}/media`
        await patiently(() => call('POST', path, { media_id: m.media_id }))
          .catch(ifThere)
          .catch(ifGone)
      }
      onClose()
      onDone()
      toast(`${plural(items.length - gone, 'item')} added to “${album.title}”${leftOut(gone)}`, {
        label: 'Open',
        run: () => location.assign(linkToAlbum(album.album_id)),
      })
    } catch (error) {
      if (isOver()) return
      if (isGone.current) return toast(`Not all items were added to “${album.title}”. ${inWords(error)}`)
      setProgress(undefined)
      setProblem(inWords(error))
    }
  }
  return html`
    <${Dialog} title=${`Add ${plural(items.length, 'item')} to`} isNarrow onClose=${onClose}>
      ${!albums && !list.error && html`<${Wait} />`}
      <${Problem} text=${problem} error=${list.error} />
      <ul class="album-choices" aria-label="Albums">
        ${albums?.map((album) => html`<li key=${album.album_id}><button class="account" type="button" disabled=${Boolean(progress)} onClick=${() => add(album)}><strong dir="auto">${album.title}</strong><span class="muted small">${plural(album.media_count, 'item')}</span></button></li>`)}
      </ul>
      ${albums?.length === 0 && html`<p class="muted">There is no album yet.</p>`}
      <${More} list=${list} />
      <p><button class="button" type="button" disabled=${Boolean(progress)} onClick=${() => editAlbum({ org, onSaved: add })}><${Icon} name="add" size="18" />New album</button></p>
      <p class="muted small" role="status">${progress}</p>
    <//>`
}

/** Added meanwhile, or before. */
const ifThere = (error) => {
  if (error.code !== 'CONFLICT' && error.code !== 'MEDIA_ALREADY_IN_ALBUM') throw error
}
