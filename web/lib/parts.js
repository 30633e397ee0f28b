import { html, useEffect } from './html.js'
import { inWords } from './refusals.js'
import { hue } from './words.js'

/** What went wrong, as a text or as an answer of the API. Nothing about a missing connection: the page says that once. */
export function Problem({ text, error, class: name = '' }) {
  const words = text ?? (error && error.code !== 'OFFLINE' ? inWords(error) : undefined)
  return words && html`<p class=${`error ${name}`} role="alert">${words}</p>`
}

/** Shown while a view has nothing to show yet. Its styles keep it invisible for 200 ms. */
export const Wait = ({ label = 'Loading' }) =>
  html`<div class="wait" role="status"><span class="spinner" aria-hidden="true"></span><span class="visually-hidden">${label}</span></div>`

/** What a list says when it is empty: a picture, a heading, a sentence and maybe a button. */
export const Empty = ({ title, text, picture, children }) => html`
  <div class="empty">
    ${picture && html`<svg aria-hidden="true" viewBox="0 0 64 48" width="96" height="72">${picture}</svg>`}
    <h2>${title}</h2>
    ${text && html`<p class="muted">${text}</p>`}
    ${children}
  </div>`

/** The button below a list of `usePages` that shows more of it. */
export const More = ({ list, label = 'Show more' }) =>
  list.hasMore &&
  html`<p class="more"><button class="button" type="button" disabled=${list.isMore} onClick=${list.more}>${label}</button></p>`

/** A circle with the initial of a name. */
export const Avatar = ({ name }) =>
  html`<span class="avatar" aria-hidden="true" style=${{ '--hue': hue(name) }}>${[...name][0]}</span>`

/** The heading of a view, with its buttons beside it. It is the title of the page as well. */
export function Intro({ title, text, children }) {
  useEffect(() => {
    document.title = `${title} · Keepsake`
  }, [title])
  return html`
    <div class="intro">
      <div>
        <h1 tabindex="-1">${title}</h1>
        <p class="muted">${text}</p>
      </div>
      ${children && html`<div class="tools">${children}</div>`}
    </div>`
}
