import { html, useLayoutEffect, useRef } from '../lib/html.js'
import { closeMediaComments, openMediaComments } from '../media-comments.js'

/** The discussion beside a media item, whose markup stands in the page. It is moved here while it is shown. */
const parts = document.getElementById('old-media-comments')
const unsent = new Set()

export const hasUnsent = (base) => unsent.has(base)

export function MediaComments({ m, discussed, openViewer }) {
  const host = useRef()
  useLayoutEffect(() => {
    const shown = [...parts.children]
    host.current.append(...shown)
    openMediaComments(m, discussed, openViewer)
    const base = `${discussed.path}/media/${m.media_id}/comments`
    return () => {
      if (closeMediaComments()) unsent.add(base)
      else unsent.delete(base)
      parts.append(...shown)
    }
  }, [])
  return html`<div ref=${host}></div>`
}
