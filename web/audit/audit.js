import { call } from '../lib/api.js'
import { Field, useForm } from '../lib/form.js'
import { html, useEffect, useRef, useState } from '../lib/html.js'
import { Empty, Intro, Problem, Wait } from '../lib/parts.js'
import { usePolled } from '../lib/poll.js'
import { filterOf, INITIAL, nameOf, RESULTS, timeOf } from './words.js'

const EXPORT_MS = 2000

/** The audit log, for platform administrators. Others do not see that there is one. */
export function Audit({ me }) {
  if (!me.platform_admin) return html`<${Empty} title="This page is not there" />`
  return html`<${Log} />`
}

function Log() {
  const [filter, setFilter] = useState({})
  const [shown, setShown] = useState({ logs: [], isBusy: true })
  /** Of the latest search: an answer to an earlier one is not shown. */
  const latest = useRef(0)
  const load = async (wanted, cursor) => {
    const own = ++latest.current
    setShown((now) => ({ ...(cursor ? now : { logs: [] }), isBusy: true }))
    try {
      const page = await call('POST', '/admin/audit/query', { ...wanted, ...(cursor && { cursor }) })
      if (own !== latest.current) return
      setShown((now) => ({
        logs: [...(cursor ? now.logs : []), ...page.logs],
        first: cursor ? now.first : page,
        next: page.next_cursor,
      }))
    } catch (error) {
      if (own !== latest.current) return
      setShown((now) => ({ ...now, isBusy: false }))
      throw error
    }
  }
  const tryLoad = (...wanted) => load(...wanted).catch((error) => setShown((now) => ({ ...now, error })))
  useEffect(() => void tryLoad(filter), [])
  const form = useForm({
    initial: INITIAL,
    async save(values) {
      const wanted = filterOf(values)
      await load(wanted)
      setFilter(wanted)
    },
  })
  /** Everything about one person or one thing. */
  const follow = (field, id) => {
    const values = { ...INITIAL, unsealed: form.values.unsealed, [field]: id }
    form.set(values)
    const wanted = filterOf(values)
    setFilter(wanted)
    void tryLoad(wanted)
    document.querySelector('.view-audit h1')?.focus()
  }
  const { logs, first, next, isBusy, error } = shown
  return html`
    <section class="view-audit" aria-label="Audit log">
      <${Intro} title="Audit log" text="Who did what, when and from where. Each search is an entry itself." />
      <form class="audit-filter" ref=${form.form} onSubmit=${form.submit} noValidate>
        <${Field} form=${form} name="actor_id" label="Person" placeholder="usr_…" autocomplete="off" />
        <${Field} form=${form} name="resource_id" label="Resource" placeholder="med_…, evt_…" autocomplete="off" />
        <${Field} form=${form} name="org_id" label="Group" placeholder="org_…" autocomplete="off" />
        <${Field} form=${form} name="action" label="Action" placeholder="MEDIA_DELETE" autocomplete="off" />
        <${Field} form=${form} name="result" label="Result" options=${RESULTS} />
        <${Field} form=${form} name="ip_address" label="Address" placeholder="203.0.113.7" autocomplete="off" />
        <${Field} form=${form} name="from" label="From" type="datetime-local" />
        <${Field} form=${form} name="to" label="Before" type="datetime-local" />
        <label class="audit-check"><input type="checkbox" name="unsealed" checked=${form.values.unsealed} onChange=${(event) => form.set({ unsealed: event.target.checked })} />Entries that are not sealed yet</label>
        <div class="tools"><button class="button primary" disabled=${form.isBusy}>Search</button></div>
      </form>
      <${Problem} text=${form.problem} error=${error} />
      <${Exports} filter=${filter} />
      <p class="muted small" role="status">${first && summary(first, logs.length)}</p>
      <ul class="audit-entries" aria-label="Entries">
        ${logs.map((entry) => html`<${Entry} key=${entry.audit_id} entry=${entry} onFollow=${follow} />`)}
      </ul>
      ${isBusy && html`<${Wait} />`}
      ${first && logs.length === 0 && !next && html`<${Empty} title="No entries" text="None that are sealed match. Newer ones may not be sealed yet." />`}
      ${next && html`<p class="more"><button class="button" type="button" disabled=${isBusy} onClick=${() => tryLoad(filter, next)}>Show more</button></p>`}
    </section>`
}

const summary = ({ total, total_is_estimate: isMore, sealed_until: until }, count) =>
  [
    total === null ? `${count} shown` : `${count} of ${total}${isMore ? ' or more' : ''} shown`,
    `sealed until ${timeOf(until)}`,
  ].join(' · ')

function Entry({ entry, onFollow }) {
  const { actor_id: actor, resource_id: resource, resource_type: type, ip_address: ip, user_agent: agent } = entry
  return html`
    <li class="audit-entry">
      <p class="audit-line">
        <strong>${entry.action}</strong>
        <span class=${`audit-result ${entry.result}`}>${entry.result}</span>
        ${!entry.sealed && html`<span class="audit-result">not sealed</span>`}
        <time class="muted small" datetime=${entry.occurred_at}>${timeOf(entry.occurred_at)}</time>
      </p>
      <p class="small">
        ${actor ? html`<button class="linklike" type="button" title=${`Follow ${actor}`} onClick=${() => onFollow('actor_id', actor)}>${nameOf(actor)}</button>` : 'No signed-in person'}
        ${' · '}${type}
        ${resource && html`${' '}<button class="linklike" type="button" title=${`Follow ${resource}`} onClick=${() => onFollow('resource_id', resource)}>${nameOf(resource)}</button>`}
      </p>
      <p class="muted small audit-from" dir="auto">${
        { erased: 'The person was erased.', damaged: 'What is known of the person cannot be read: it was changed.' }[
          entry.personal_data
        ] ?? [ip, agent].filter(Boolean).join(' · ')
      }</p>
      <details class="small"><summary>Details</summary><pre tabindex="0">${JSON.stringify(entry, null, 2)}</pre></details>
    </li>`
}

/** Asks for a file of the entries that match, and shows how far it is. */
function Exports({ filter }) {
  const [id, setId] = useState()
  const [error, setError] = useState()
  const [isBusy, setBusy] = useState(false)
  const [isOver, setOver] = useState(false)
  const { data } = usePolled(
    async () => {
      if (!id) return undefined
      const found = await call('GET', `/admin/audit/export/${id}`)
      setOver(found.status !== 'processing')
      return found
    },
    [id],
    id && !isOver ? EXPORT_MS : 0,
  )
  const request = async (format) => {
    setBusy(true)
    setError(undefined)
    const { limit: _, ...rest } = filter
    try {
      const made = await call('POST', '/admin/audit/export', { ...rest, format })
      setOver(false)
      setId(made.export_id)
    } catch (refused) {
      setError(refused)
    }
    setBusy(false)
  }
  return html`
    <div class="audit-export" role="group" aria-label="Export what was searched for">
      <button class="button" type="button" disabled=${isBusy} onClick=${() => request('csv')}>Export as CSV</button>
      <button class="button" type="button" disabled=${isBusy} onClick=${() => request('jsonl')}>Export as JSON Lines</button>
      <p class="small" role="status">${data && progressOf(data)}</p>
      <${Problem} error=${error} />
    </div>`
}

function progressOf({ status, progress, download_url: url }) {
  if (status === 'completed') {
    return html`<a href=${url} download>Download the file</a> with ${progress.entries} entries. The link works for a day.`
  }
  if (status !== 'processing') return 'The export failed. Request it again.'
  const { entries, reached } = progress
  return `The export is being made: ${entries} entries so far${reached ? `, back to ${timeOf(reached)}` : ''}. An e-mail tells when it is ready.`
}
