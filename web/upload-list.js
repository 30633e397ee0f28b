import { $, announce, copyOf } from './dom.js'
import { chosen, droppedFiles } from './folder.js'
import { look } from './library.js'
import { mayRetry, newUploadQueue } from './upload-queue.js'
import { plural, seconds, size } from './words.js'

/** Rows of failed files; the rest is counted. */
const ROWS = 30

let organization
let frame
let told = 0
let looking
const rows = new Map()
const queue = newUploadQueue({
  onChange() {
    frame ??= requestAnimationFrame(render)
  },
  onDone() {
    // Files arrive many at a time; the library is asked once for all of them.
    looking ??= setTimeout(() => {
      looking = undefined
      void look()
    }, 400)
  },
})

/** Uploads go to this organization from now on. */
export function uploadTo(chosenOrganization) {
  organization = chosenOrganization
}

export const endUploads = () => queue.stop()

function add(entries) {
  if (entries.length === 0 || !organization) return
  if (!queue.summary().isBusy) {
    queue.clear()
    began = performance.now()
    told = 0
  }
  queue.add(organization.org_id, entries)
}
let began = 0

function render() {
  frame = undefined
  const s = queue.summary()
  $('uploads').hidden = s.total === 0 && s.skipped.length === 0
  $('uploads-title').textContent = titleOf(s)
  const bar = $('uploads-progress')
  bar.hidden = !s.isBusy
  bar.value = s.bytes ? (s.sent / s.bytes) * 100 : 0
  $('uploads-text').textContent = textOf(s)
  $('uploads-retry').hidden = s.failed.filter(mayRetry).length < 2
  $('uploads-close').hidden = s.isBusy
  $('uploads-stop').hidden = !s.isBusy
  $('uploads-skipped').hidden = s.skipped.length === 0
  $('uploads-skipped').textContent = skippedText(s.skipped)
  hideWhenDone(s)
  showRows([...s.sending, ...s.failed.slice(0, ROWS)])
  tell(s)
}

let hiding
/** What went well need not be closed by hand. */
function hideWhenDone({ isBusy, failed, skipped }) {
  clearTimeout(hiding)
  if (!isBusy && failed.length === 0 && skipped.length === 0) hiding = setTimeout(queue.clear, 6000)
}

function titleOf({ isBusy, done, total, failed }) {
  if (isBusy) return total === 1 ? 'Uploading' : `Uploading ${Math.min(done + 1, total)} of ${total.toLocaleString()}`
  if (failed.length > 0) return `${plural(failed.length, 'file')} could not be uploaded`
  return total === 0 ? 'Nothing to upload' : `${plural(done, 'file')} uploaded`
}

function textOf({ isBusy, sent, bytes }) {
  if (!isBusy) return ''
  const rate = sent / Math.max(0.1, (performance.now() - began) / 1000)
  const left = rate > 0 && sent < bytes ? ` · ${seconds((bytes - sent) / rate)} left` : ''
  return `${size(sent)} of ${size(bytes)} · ${Math.floor((sent / bytes) * 100)} % · ${size(rate)}/s${left}`
}

function skippedText(names) {
  if (names.length === 0) return ''
  const some = names.slice(0, 3).join(', ')
  const more = names.length > 3 ? ` and ${plural(names.length - 3, 'other file')}` : ''
  return `Skipped, because only photos and videos can be added: ${some}${more}`
}

function tell({ isBusy, sent, bytes, done, total, failed }) {
  const quarter = bytes ? Math.floor((sent / bytes) * 4) * 25 : 0
  if (isBusy && quarter > told) announce(`${quarter} percent uploaded`)
  if (!isBusy && told < 101 && total > 0) {
    announce(failed.length ? `${plural(failed.length, 'file')} could not be uploaded` : `${plural(done, 'file')} uploaded`)
  }
  told = isBusy ? Math.max(told, quarter) : 101
}

function showRows(jobs) {
  for (const [job, row] of rows) {
    if (jobs.includes(job)) continue
    row.remove()
    rows.delete(job)
  }
  for (const job of jobs) {
    if (!rows.has(job)) rows.set(job, newRow(job))
    const row = rows.get(job)
    $('upload-rows').append(row)
    const isFailed = job.state === 'failed'
    row.classList.toggle('failed', isFailed)
    row.querySelector('.text').textContent = rowText(job)
    row.querySelector('progress').value = (job.sent / job.size) * 100
    row.querySelector('progress').hidden = isFailed
    row.querySelector('.retry').hidden = !mayRetry(job)
    row.querySelector('.cancel').textContent = isFailed ? 'Remove' : 'Cancel'
    row.querySelector('.cancel').ariaLabel = `${isFailed ? 'Remove' : 'Cancel'} ${job.name}`
  }
}

function rowText({ note, sent, size: whole }) {
  if (note) return note
  return sent === whole ? 'Finishing' : `${size(sent)} of ${size(whole)} · ${Math.floor((sent / whole) * 100)} %`
}

function newRow(job) {
  const row = copyOf('upload')
  row.querySelector('.name').textContent = job.name
  row.querySelector('.name').title = job.path
  row.querySelector('progress').ariaLabel = `Upload of ${job.name}`
  row.querySelector('.retry').ariaLabel = `Try ${job.name} again`
  row.querySelector('.retry').addEventListener('click', () => queue.retry((other) => other === job))
  row.querySelector('.cancel').addEventListener('click', () => queue.cancel(job))
  return row
}

for (const id of ['files', 'folder']) {
  $(id).addEventListener('change', () => {
    add([...$(id).files].map(chosen))
    $(id).value = ''
  })
}
$('uploads-retry').addEventListener('click', () => queue.retry())
$('uploads-close').addEventListener('click', queue.clear)
$('uploads-stop').addEventListener('click', queue.stop)
addEventListener('online', () => queue.retry((job) => job.code === 'OFFLINE'))
addEventListener('beforeunload', (event) => {
  if (queue.summary().isBusy) event.preventDefault()
})

let depth = 0
const dragging = (event) => !$('library').hidden && event.dataTransfer?.types.includes('Files')
addEventListener('dragenter', (event) => {
  if (dragging(event)) $('drop').hidden = ++depth < 1
})
addEventListener('dragleave', (event) => {
  if (dragging(event)) $('drop').hidden = --depth < 1
})
addEventListener('dragover', (event) => event.preventDefault())
addEventListener('drop', (event) => {
  event.preventDefault()
  depth = 0
  $('drop').hidden = true
  if (dragging(event)) void droppedFiles(event.dataTransfer).then(add)
})
