import { EventComments } from './discussions/event-comments.js'
import { $ } from './dom.js'
import { html, render } from './lib/html.js'

/** For the event view until it is in the registry. */

let at

export function openComments({ event, org, path, me }) {
  at = { event, org, path, me }
}

export function closeComments() {
  at = undefined
  render(null, $('event-comments'))
}

/** `event` is the present state of the event. */
export function lookAtComments(event) {
  if (!at) return
  at.event = event
  render(html`<${EventComments} ...${at} />`, $('event-comments'))
}
