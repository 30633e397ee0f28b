import { call } from '../lib/api.js'
import { html, useState } from '../lib/html.js'
import { Intro, Problem, Wait } from '../lib/parts.js'
import { usePolled } from '../lib/poll.js'
import { announce } from '../lib/toast.js'
import { day, plural, size } from '../lib/words.js'

const PATH = '/gdpr/export'
const WORDS =
  'A copy of everything that is yours: the originals that you uploaded, and what you wrote, own and take part in. You can look at it without Keepsake.'
const isRunning = ({ exports }) => exports.some(({ status }) => status === 'processing')

/** What a person has here, to take away. */
export function MyData() {
  // Links end after a day; a page that stays open gets new ones.
  const list = usePolled(
    () => call('GET', PATH),
    [],
    (data) => (isRunning(data) ? 2000 : 600_000),
  )
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState()
  const exports = list.data?.exports ?? []

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
  const request = () => change(() => call('POST', PATH), 'Your data is being put together')
  const remove = ({ export_id }) => change(() => call('DELETE', `${PATH}/${export_id}`), 'The copy was removed')

  return html`
    <section class="view-my-data" aria-label="Your data">
      <${Intro} title="Your data" text=${WORDS}>
        <button class="button primary" type="button" disabled=${isBusy || !list.data || isRunning(list.data)} onClick=${request}>Download my data</button>
      <//>
      <${Problem} class="banner" error=${problem ?? list.error} />
      ${!list.data && !list.error && html`<${Wait} />`}
      ${exports.length > 0 && html`<ul class="copies" aria-label="Copies of your data">${exports.map((one) => html`<${Copy} key=${one.export_id} one=${one} isBusy=${isBusy} onRemove=${() => remove(one)} />`)}</ul>`}
      <p class="account-more"><a href="#my-account">Delete my account</a></p>
    </section>`
}

const STATUS = {
  processing: 'Being put together',
  completed: 'Ready',
  failed: 'It could not be put together. We have been told, and try to repair it.',
  expired: 'No longer available',
}

function Copy({ one, isBusy, onRemove }) {
  const { status, created_at, expires_at, progress, parts } = one
  return html`
    <li class="copy">
      <h2>${day(created_at)}</h2>
      <p class="muted">${STATUS[status]}${status === 'completed' && `, until ${day(expires_at)}`}</p>
      ${
        status === 'processing' &&
        html`
          <progress max="100" value=${progress.percent} aria-label="Progress"></progress>
          <p class="muted">${progress.parts_total === 0 ? 'Looking for what is yours' : `${progress.percent} % of ${size(progress.bytes_total)}`}. You get an e-mail when it is ready.</p>`
      }
      ${
        status === 'completed' &&
        html`
          ${parts.length > 1 && html`<p class="muted">${plural(parts.length, 'archive')}. The first one has what you wrote and own.</p>`}
          <ul>${parts.map(({ name, bytes, download_url }) => html`<li key=${name}><a href=${download_url} download=${name}>${name}</a> <span class="muted">${size(bytes)}</span></li>`)}</ul>`
      }
      ${status !== 'expired' && html`<button class="button quiet" type="button" disabled=${isBusy} onClick=${onRemove}>${status === 'processing' ? 'Stop' : 'Remove'}<span class="visually-hidden"> the copy of ${day(created_at)}</span></button>`}
    </li>`
}
