import { html } from '../lib/html.js'
import { openViewer } from '../viewer/viewer.js'
import { Discussion } from './discussion.js'

/** Below an event: its comments, and the reactions to it. `path` is that of the event. */
export const EventComments = ({ event, org, path, me }) => html`
  <section class="panel" aria-labelledby="comments-title">
    <h2 id="comments-title">Comments</h2>
    <${Discussion} key=${event.event_id} event=${event} org=${org} path=${path} me=${me} type="meta" id=${event.event_id} openViewer=${openViewer} />
  </section>`
