import { html } from '../lib/html.js'
import { Discussion } from './discussion.js'

/** Whether something about `path/media/med_1/comments` was begun and not sent. */
export { hasUnsent } from './drafts.js'

/**
 * Beside a media item in the viewer: what is said about it at an event, and the reactions to it. `discussed`: {event(), org,
 * path, me}, the event with its path; `openViewer` shows what is attached to a comment.
 */
export const MediaComments = ({ m, discussed: { event, org, path, me }, openViewer }) =>
  html`<${Discussion} key=${path + m.media_id} event=${event()} org=${org} path=${path} me=${me} type="media" id=${m.media_id} openViewer=${openViewer} />`
