import { html, render, useId, useLayoutEffect, useRef, useState } from './html.js'
import { Icon } from './icons.js'
import { Problem } from './parts.js'
import { inWords } from './refusals.js'
import { saveToast } from './toast.js'

/** Dialogs that are shown: {isDirty(), ask(go)}. */
const shown = new Set()

/**
 * Asks before what was entered is lost, if anything was: `go` is called when the person discards it. Returns whether it
 * asks.
 */
export function askBeforeLeaving(go) {
  const dirty = [...shown].findLast((one) => one.isDirty())
  dirty?.ask(go)
  return Boolean(dirty)
}

/**
 * A modal dialog with a heading and a button that closes it. A click beside it does not close it. `isDirty()` says that
 * something was entered: then the dialog asks before it closes. `onClose()` must remove it.
 */
export function Dialog({ title, onClose, isDirty, role, isNarrow, describedBy, children, ...rest }) {
  const ref = useRef()
  const id = useId()
  const gone = useRef(false)
  const [isLeaving, setLeaving] = useState(false)
  useLayoutEffect(() => {
    const dialog = ref.current
    dialog.showModal()
    return () => {
      gone.current = true
      saveToast(dialog)
      if (dialog.open) dialog.close() // gives the focus back to where it was
    }
  }, [])
  /** What the person was about to do when they were asked; undefined: only to close the dialog. */
  const going = useRef()
  const latest = useRef()
  latest.current = isDirty
  useLayoutEffect(() => {
    const self = {
      isDirty: () => Boolean(latest.current?.()),
      ask(go) {
        going.current = go
        setLeaving(true)
      },
    }
    shown.add(self)
    return () => shown.delete(self)
  }, [])
  const stay = () => {
    going.current = undefined
    setLeaving(false)
  }
  const discard = () => {
    const go = going.current
    onClose()
    go?.()
  }
  const leave = () => (isDirty?.() ? setLeaving(true) : onClose())
  const onKeyDown = (event) => {
    // Before the browser closes it: a second Escape in a row could not be prevented.
    if (event.key !== 'Escape' || event.defaultPrevented || event.target.closest('dialog') !== ref.current) return
    event.preventDefault()
    if (isLeaving) stay()
    else leave()
  }
  const onCancel = (event) => {
    if (event.target !== ref.current) return
    event.preventDefault()
    leave()
  }
  return html`
    <dialog
      ref=${ref} id=${rest.id} class=${`sheet ${isNarrow ? 'narrow' : ''} ${rest.class ?? ''}`} role=${role}
      aria-labelledby=${id} aria-describedby=${describedBy} onKeyDown=${onKeyDown} onCancel=${onCancel}
      onClose=${(event) => event.target === ref.current && !gone.current && onClose()}
    >
      <header class="sheet-head">
        <h2 id=${id} dir="auto">${title}</h2>
        <button class="icon-button close" type="button" aria-label="Close" onClick=${leave}><${Icon} name="close" /></button>
      </header>
      ${typeof children === 'function' ? children(leave) : children}
      ${isLeaving && html`<${Leaving} onStay=${stay} onLeave=${discard} />`}
    </dialog>`
}

/** Over the dialog rather than in place of it: what was entered stays to be seen. */
function Leaving({ onStay, onLeave }) {
  const stay = useRef()
  useLayoutEffect(() => stay.current.focus(), [])
  return html`
    <div class="leaving" role="alertdialog" aria-modal="true" aria-label="Discard what you entered?">
      <p><strong>Discard what you entered?</strong></p>
      <div class="leaving-answers">
        <button class="button primary" type="button" ref=${stay} onClick=${onStay}>Keep editing</button>
        <button class="button" type="button" onClick=${onLeave}>Discard</button>
      </div>
    </div>`
}

const open = new Set()

/**
 * Opens a dialog from anywhere: `view(close)` returns it, and is drawn outside of the view that opened it. It goes when
 * `close` is called, and when the person goes to another view.
 */
export function openDialog(view) {
  const host = document.createElement('div')
  document.body.append(host)
  const close = () => {
    if (!open.delete(close)) return
    render(null, host)
    host.remove()
  }
  open.add(close)
  render(view(close), host)
  return close
}

export function closeDialogs() {
  for (const close of [...open]) close()
}

/** Asks before something that cannot be taken back. `run` does it; a refusal stays in the dialog, in the words of `say`. */
export function ask(question) {
  openDialog((close) => html`<${Ask} ...${question} onClose=${close} />`)
}

function Ask({ title, text, label, run, say = inWords, onClose }) {
  const id = useId()
  const [problem, setProblem] = useState()
  const [isBusy, setBusy] = useState(false)
  const go = async () => {
    setBusy(true)
    setProblem(undefined)
    try {
      await run()
      onClose()
    } catch (error) {
      setProblem(say(error))
      setBusy(false)
    }
  }
  return html`
    <${Dialog} title=${title} isNarrow role="alertdialog" describedBy=${id} onClose=${onClose}>
      <p id=${id} class="muted">${text}</p>
      <${Problem} text=${problem} />
      <footer class="sheet-foot">
        <button class="button" type="button" onClick=${onClose}>Cancel</button>
        <button class="button primary" type="button" disabled=${isBusy} onClick=${go}>${label}</button>
      </footer>
    <//>`
}
