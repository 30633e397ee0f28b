import { hasUnsent, MediaComments } from './discussions/media-comments.js'
import { $ } from './dom.js'
import { html, render } from './lib/html.js'

/** For the viewer until it is drawn by the view library. */

let base

export function openMediaComments(m, discussed, openViewer) {
  base = `${discussed.path}/media/${m.media_id}/comments`
  render(html`<${MediaComments} m=${m} discussed=${discussed} openViewer=${openViewer} />`, $('viewer-comments'))
}

/** Returns whether a comment was begun and not sent. It is there again when the media item is opened again. */
export function closeMediaComments() {
  const isUnsent = Boolean(base) && hasUnsent(base)
  base = undefined
  render(null, $('viewer-comments'))
  return isUnsent
}
