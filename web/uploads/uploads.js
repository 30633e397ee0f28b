import { html, useEffect, useReducer, useRef, useState } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { session } from '../lib/session.js'
import { announce } from '../lib/toast.js'
import { plural, seconds, size } from '../lib/words.js'
import { chosen, droppedFiles } from './folder.js'
import { rememberUnfinished, unfinished } from './memory.js'
import { mayRetry, newUploadQueue } from './queue.js'

/** Rows of failed files; the rest is counted. */
const ROWS = 30
const DONE_MS = 6000

const listeners = new Set()
let frame
let org
let began = 0
let arriving
let onArrived = () => {}

const queue = newUploadQueue({
  onChange() {
    if (frame !== undefined) return
    frame = requestAnimationFrame(() => {
      frame = undefined
      const { isBusy, left } = queue.summary()
      for (const [to, count] of Object.entries(left)) rememberUnfinished(to, isBusy ? count : 0)
      for (const tell of [...listeners]) tell()
    })
  },
  onDone() {
    // Files arrive many at a time; the library is asked once for all of them.
    if (arriving !== undefined) return
    arriving = setTimeout(() => {
      arriving = undefined
      onArrived()
    }, 400)
  },
})

/** Uploads go to this organization from now on; `arrived` is called when some files are there. */
export function uploadTo(organization, arrived) {
  org = organization
  onArrived = arrived
}

export const endUploads = () => queue.end()

function add(entries, to = org?.org_id) {
  if (entries.length === 0 || !to) return
  if (!queue.summary().isBusy) {
    queue.clear()
    began = performance.now()
  }
  queue.add(to, entries)
}

/** What is on its way, kept up to date. */
export function useUploads() {
  const [, draw] = useReducer((count) => count + 1, 0)
  useEffect(() => {
    listeners.add(draw)
    return () => listeners.delete(draw)
  }, [])
  return queue.summary()
}

/** A button that asks for files. They go to the group that is shown, unless `to` names another one. */
export function AddFiles({ id, isFolder, label, to, children, ...rest }) {
  const onChange = ({ target }) => {
    add([...target.files].map(chosen), to)
    target.value = ''
  }
  const what = isFolder ? { webkitdirectory: true } : { accept: 'image/*,video/*,.heic,.heif,.mkv' }
  return html`
    <label class=${`button ${rest.class ?? ''}`} for=${id} title=${label}>
      ${children}
      <input id=${id} class="visually-hidden" type="file" multiple ...${what} onChange=${onChange} aria-label=${label} />
    </label>`
}

/** The list of what is on its way, and what is dropped anywhere on the page. */
export function Uploads({ name, organizations }) {
  const s = useUploads()
  const [left, setLeft] = useState(unfinished)
  const begun = Object.keys(s.left)
  useEffect(() => setLeft((now) => without(now, begun)), [begun.join()])
  useEffect(() => {
    if (s.isBusy || s.total === 0 || s.failed.length > 0 || s.skipped.length > 0) return
    // What went well need not be closed by hand.
    const timer = setTimeout(queue.clear, DONE_MS)
    return () => clearTimeout(timer)
  }, [s.isBusy, s.total === 0, s.failed.length, s.skipped.length])
  useTold(s)
  useWarning(s.isBusy)
  const interrupted = organizations.find((o) => left[o.org_id])
  const forget = () => {
    rememberUnfinished(interrupted.org_id, 0)
    setLeft(without(left, [interrupted.org_id]))
  }
  const to = organizations.length > 1 ? organizations.filter((o) => begun.includes(o.org_id)) : []
  return html`
    <${Drop} name=${name} />
    ${
      s.total > 0 || s.skipped.length > 0
        ? html`<${Panel} s=${s} to=${to} />`
        : interrupted &&
          html`<${Interrupted} key=${interrupted.org_id} org=${interrupted} count=${left[interrupted.org_id]} onClose=${forget} />`
    }`
}

const without = (counts, orgs) => Object.fromEntries(Object.entries(counts).filter(([org]) => !orgs.includes(org)))

const Interrupted = ({ org, count, onClose }) => html`
  <section class="uploads" aria-labelledby="uploads-title">
    <div class="uploads-head">
      <h2 id="uploads-title">${count === 1 ? 'An upload' : `An upload of ${plural(count, 'file')}`} to <span dir="auto">${org.name}</span> was interrupted</h2>
      <button class="icon-button" type="button" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button>
    </div>
    <p class="muted small">Choose the same files or folder again: it continues where it ended, and sends nothing twice.</p>
    <${AddFiles} id="files-again" to=${org.org_id} label="Choose the files again">Choose the files again<//>
  </section>`

/** `to`: the groups of the files, of a person who has several. */
function Panel({ s, to }) {
  return html`
    <section id="uploads" class="uploads" aria-labelledby="uploads-title">
      <div class="uploads-head">
        <h2 id="uploads-title">${titleOf(s)}</h2>
        ${s.failed.filter(mayRetry).length > 1 && html`<button class="button quiet" type="button" onClick=${() => queue.retry()}>Try all again</button>`}
        ${
          s.isBusy
            ? html`<button class="button quiet" type="button" onClick=${queue.stop}>Stop</button>`
            : html`<button id="uploads-close" class="button quiet" type="button" onClick=${queue.clear}>Close</button>`
        }
      </div>
      ${to.length > 0 && html`<p id="uploads-to" class="muted small">To <span dir="auto">${to.map((o) => o.name).join(', ')}</span></p>`}
      ${s.isBusy && html`<progress max="100" value=${s.bytes ? (s.sent / s.bytes) * 100 : 0} aria-label="All uploads"></progress>`}
      ${s.isBusy && html`<p id="uploads-text" class="muted small">${textOf(s)}</p>`}
      <ul class="upload-rows" aria-label="Files">
        ${[...s.sending, ...s.failed.slice(0, ROWS)].map((job) => html`<${Row} key=${job.key} job=${job} />`)}
      </ul>
      ${s.skipped.length > 0 && html`<p id="uploads-skipped" class="muted small">${skippedText(s.skipped)}</p>`}
    </section>`
}

function Row({ job }) {
  const isFailed = job.state === 'failed'
  const end = isFailed ? 'Remove' : 'Cancel'
  return html`
    <li class=${`upload ${isFailed ? 'failed' : ''}`}>
      <div class="row"><strong class="name" title=${job.path}>${job.name}</strong><span class="muted small text">${rowText(job)}</span></div>
      ${!isFailed && html`<progress max="100" value=${(job.sent / job.size) * 100} aria-label=${`Upload of ${job.name}`}></progress>`}
      <div class="actions">
        ${mayRetry(job) && html`<button class="button quiet" type="button" aria-label=${`Try again: ${job.name}`} onClick=${() => queue.retry((other) => other === job)}>Try again</button>`}
        ${job.state !== 'canceling' && html`<button class="button quiet" type="button" aria-label=${`${end} ${job.name}`} onClick=${() => queue.cancel(job)}>${end}</button>`}
      </div>
    </li>`
}

function titleOf({ isBusy, done, total, failed }) {
  if (isBusy) return total === 1 ? 'Uploading' : `Uploading ${Math.min(done + 1, total)} of ${total.toLocaleString()}`
  if (failed.length > 0) return `${plural(failed.length, 'file')} could not be uploaded`
  return total === 0 ? 'Nothing to upload' : `${plural(done, 'file')} uploaded`
}

/** What had arrived before, e.g. before a reload, says nothing about how quick the connection is. */
function textOf({ sent, resumed, bytes }) {
  const rate = (sent - resumed) / Math.max(0.1, (performance.now() - began) / 1000)
  const left = rate > 0 && sent < bytes ? ` · ${seconds((bytes - sent) / rate)} left` : ''
  return `${size(sent)} of ${size(bytes)} · ${Math.floor((sent / bytes) * 100)} % · ${size(Math.max(0, rate))}/s${left}`
}

function skippedText(names) {
  const some = names.slice(0, 3).join(', ')
  const more = names.length > 3 ? ` and ${plural(names.length - 3, 'other file')}` : ''
  return `Skipped, because only photos and videos can be added: ${some}${more}`
}

function rowText({ state, note, sent, size: whole }) {
  if (state === 'canceling') return 'Canceling'
  if (note) return note
  return sent === whole ? 'Finishing' : `${size(sent)} of ${size(whole)} · ${Math.floor((sent / whole) * 100)} %`
}

/** Tells screen readers every quarter, and the end. */
function useTold({ isBusy, sent, bytes, done, total, failed }) {
  const told = useRef(0)
  const quarter = bytes ? Math.floor((sent / bytes) * 4) * 25 : 0
  useEffect(() => {
    if (isBusy && told.current > 100) told.current = 0
    if (isBusy && quarter > told.current) announce(`${quarter} percent uploaded`)
    if (!isBusy && told.current < 101 && total > 0) {
      announce(
        failed.length ? `${plural(failed.length, 'file')} could not be uploaded` : `${plural(done, 'file')} uploaded`,
      )
    }
    told.current = isBusy ? Math.max(told.current, quarter) : 101
  }, [isBusy, quarter, total])
}

function useWarning(isBusy) {
  useEffect(() => {
    if (!isBusy) return
    const of = session()?.id
    // In another session the page must not stay: it shows one person and would act as another one.
    const warn = (event) => session()?.id === of && event.preventDefault()
    addEventListener('beforeunload', warn)
    return () => removeEventListener('beforeunload', warn)
  }, [isBusy])
}

function Drop({ name }) {
  const [isOver, setOver] = useState(false)
  useEffect(() => {
    let depth = 0
    const withFiles = (event) => event.dataTransfer?.types.includes('Files')
    const over = (step) => (event) => {
      if (!withFiles(event)) return
      depth += step
      setOver(depth > 0)
    }
    const does = {
      dragenter: over(1),
      dragleave: over(-1),
      dragover: (event) => event.preventDefault(),
      drop(event) {
        event.preventDefault()
        depth = 0
        setOver(false)
        if (withFiles(event)) void droppedFiles(event.dataTransfer).then(add)
      },
    }
    for (const [type, listener] of Object.entries(does)) addEventListener(type, listener)
    return () => {
      for (const [type, listener] of Object.entries(does)) removeEventListener(type, listener)
    }
  }, [])
  return isOver && html`<div class="drop" aria-hidden="true"><p>Drop to share with <strong>${name}</strong></p></div>`
}
