import { html, useRef } from './html.js'
import { Icon } from './icons.js'

/** A button that shows the rarer actions of a view: `items` `[[label, run]]`, without those that are not offered. */
export function Menu({ label = 'More', items }) {
  const ref = useRef()
  const button = useRef()
  const offered = items.filter(Boolean)
  const close = () => ref.current.removeAttribute('open')
  const onKeyDown = (event) => {
    if (event.key !== 'Escape' || !ref.current.open) return
    event.preventDefault()
    close()
    button.current.focus()
  }
  // Also as it goes, together with the view.
  const onFocusOut = (event) => !event.currentTarget.contains(event.relatedTarget) && event.currentTarget.removeAttribute('open')
  const choose = (run) => {
    button.current.focus() // where the focus comes back to after a question
    close()
    run()
  }
  return (
    offered.length > 0 &&
    html`
      <details ref=${ref} class="menu" onKeyDown=${onKeyDown} onFocusOut=${onFocusOut}>
        <summary ref=${button} class="button" aria-label=${label}><${Icon} name="more" /></summary>
        <ul>${offered.map(([text, run]) => html`<li key=${text}><button class="button quiet" type="button" onClick=${() => choose(run)}>${text}</button></li>`)}</ul>
      </details>`
  )
}
