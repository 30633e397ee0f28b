import { newAttempts } from './api.js'
import { Dialog } from './dialogs.js'
import { html, useId, useRef, useState } from './html.js'
import { Problem } from './parts.js'
import { fieldWords, inWords } from './refusals.js'

/**
 * The state of a form. `initial` are its values by field; `check(values)` returns what is wrong by field, before anything
 * is sent; `save(values, keyFor)` sends it, where `keyFor([path, body])` is the Idempotency-Key of a POST: the same one
 * until it has succeeded, unless the body changes. A refusal is shown at the fields that the API names in
 * `details[].field`, else below the form, in the words of `words`.
 */
export function useForm({ initial, check = () => ({}), save, words }) {
  const [values, setValues] = useState(initial)
  const [mistakes, setMistakes] = useState({})
  const [problem, setProblem] = useState()
  const [isBusy, setBusy] = useState(false)
  const attempts = useRef(undefined)
  attempts.current ??= newAttempts()
  const form = useRef()
  const before = useRef(initial)
  const busy = useRef(false)

  function show(found) {
    setMistakes(found)
    const inputs = [...(form.current?.elements ?? [])]
    const first = inputs.find((input) => found[input.name])
    first?.focus()
    return Boolean(first)
  }

  async function submit(event) {
    event?.preventDefault()
    if (busy.current) return
    setProblem(undefined)
    if (show(check(values))) return
    busy.current = true
    setBusy(true)
    try {
      await save(values, attempts.current.keyFor)
      attempts.current.done()
      before.current = values
    } catch (error) {
      if (!show(fieldWords(error))) setProblem(inWords(error, words))
    } finally {
      busy.current = false
      setBusy(false)
    }
  }

  return {
    ...{ form, values, mistakes, problem, isBusy, submit, setProblem },
    set: (changes) => setValues((now) => ({ ...now, ...changes })),
    isDirty: () => Object.keys(values).some((name) => (values[name] ?? '') !== (before.current[name] ?? '')),
  }
}

/**
 * One field: its label, its input and what is wrong with it. `options` `[[value, text]]` make it a list, `rows` a text of
 * several lines; everything else goes to the input.
 */
export function Field({ form, name, label, hint, options, rows, type = 'text', ...rest }) {
  const id = useId()
  const mistake = form.mistakes[name]
  const input = {
    ...{ id, name, ...rest },
    value: form.values[name] ?? '',
    'aria-invalid': mistake ? 'true' : undefined,
    'aria-describedby': mistake ? `${id}-error` : undefined,
    onInput: (event) => form.set({ [name]: event.target.value }),
  }
  return html`
    <label class="field" for=${id}>
      <span>${label}${hint && html` <span class="muted">(${hint})</span>`}</span>
      ${
        options
          ? html`<select ...${input}>${options.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select>`
          : rows
            ? html`<textarea rows=${rows} ...${input}></textarea>`
            : html`<input type=${type} autocomplete="off" ...${input} />`
      }
    </label>
    ${mistake && html`<p id=${`${id}-error`} class="error small" role="alert">${mistake}</p>`}`
}

/** A box to tick. */
export function Check({ form, name, label }) {
  const onChange = (event) => form.set({ [name]: event.target.checked })
  return html`<label class="check"><input type="checkbox" name=${name} checked=${form.values[name]} onChange=${onChange} /> ${label}</label>`
}

/**
 * A form in a dialog, which asks before it discards what was entered. `form` is of useForm; `label` is the button's, and
 * `beside` stands beside the buttons.
 */
export function FormDialog({ title, form, label, beside, onClose, isNarrow, children, ...rest }) {
  return html`
    <${Dialog} title=${title} isDirty=${form.isDirty} onClose=${onClose} isNarrow=${isNarrow} ...${rest}>
      ${(leave) => html`
        <form ref=${form.form} novalidate onSubmit=${form.submit}>
          ${children}
          <${Problem} text=${form.problem} />
          <footer class="sheet-foot">
            ${beside}
            <button class="button" type="button" onClick=${leave}>Cancel</button>
            <button class="button primary" type="submit" disabled=${form.isBusy}>${label}</button>
          </footer>
        </form>`}
    <//>`
}
