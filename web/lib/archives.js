import { call } from './api.js'
import { html, useState } from './html.js'
import { usePolled } from './poll.js'
import { announce } from './toast.js'
import { dayHere, plural, size, timeHere } from './words.js'

const isRunning = (exports) => exports.some(({ status }) => status === 'processing')

/**
 * Exports at this path, and what one can do with them. Links end after a day; a page that stays open gets new ones.
 * `which` says which of them are shown; left out: all.
 */
export function useArchives(path, which = () => true) {
  const list = usePolled(
    () => call('GET', path),
    [path],
    (data) => (isRunning(data.exports.filter(which)) ? 2000 : 600_000),
  )
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState()
  const exports = list.data?.exports.filter(which) ?? []

  async function change(work, said) {
    setBusy(true)
    setProblem(undefined)
    try {
      await work()
      announce(said)
    } catch (error) {
      setProblem(error)
    }
    setBusy(false)
    void list.reload()
  }
  return {
    exports,
    isBusy,
    isKnown: Boolean(list.data),
    isRunning: isRunning(exports),
    error: problem ?? list.error,
    request: (to, said) => change(() => call('POST', to), said),
    remove: ({ export_id }, said) => change(() => call('DELETE', `${path}/${export_id}`), said),
  }
}

const STATUS = { processing: 'Being put together', completed: 'Ready', expired: 'No longer available' }
const FAILED = {
  NOT_PERMITTED: 'You do not manage this event any more, so there is no download.',
  EVENT_GONE: 'The event was deleted before the download was ready.',
  CONTENTS_ERASED: 'Someone whose data were in it has left for good. Ask for it again.',
}
const failedFor = ({ error }) =>
  FAILED[error?.code] ?? 'It could not be put together. We have been told, and try to repair it.'

/** One export: how far it is, and its files. `first` says what its first archive has, and `title` what it is of. */
export function Archive({ one, title, first, isBusy, onRemove }) {
  const { status, created_at, expires_at, progress, parts } = one
  const heading = title ?? dayHere(created_at)
  return html`
    <li class="copy" data-status=${status}>
      <h3 dir="auto">${heading}</h3>
      <p class="muted">${status === 'failed' ? failedFor(one) : STATUS[status]}${status === 'completed' && `, until ${timeHere(expires_at)}`}</p>
      ${
        status === 'processing' &&
        html`
          <progress max="100" value=${progress.percent} aria-label="Progress"></progress>
          <p class="muted">${progress.parts_total === 0 ? 'Looking for what belongs to it' : `${progress.percent} % of ${size(progress.bytes_total)}`}. You get an e-mail when it is ready.</p>`
      }
      ${
        status === 'completed' &&
        html`
          ${parts.length > 1 && html`<p class="muted">${plural(parts.length, 'archive')}. ${first}</p>`}
          <ul>${parts.map(({ name, bytes, download_url }) => html`<li key=${name}><a href=${download_url} download=${name}>${name}</a> <span class="muted">${size(bytes)}</span></li>`)}</ul>`
      }
      ${status !== 'expired' && html`<button class="button quiet" type="button" disabled=${isBusy} onClick=${onRemove}>${status === 'processing' ? 'Stop' : 'Remove'}<span class="visually-hidden"> the download of ${dayHere(created_at)}</span></button>`}
    </li>`
}
