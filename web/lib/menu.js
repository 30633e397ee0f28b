import { html, useEffect, useRef } from './html.js'
import { Icon } from './icons.js'

/** A button that shows the rarer actions of a view: `items` `[[label, run, isGrave]]`, without those that are not offered. */
export function Menu({ label = 'More', items }) {
  const ref = useRef()
  const button = useRef()
  const offered = items.filter(Boolean)
  const close = () => ref.current?.removeAttribute('open')
  // Not when the focus is lost: where a click gives none to a button, the menu would be gone before the click.
  const isOutside = (node) => node && !ref.current?.contains(node)
  useEffect(() => {
    const onDown = (event) => isOutside(event.target) && close()
    document.addEventListener('pointerdown', onDown)
    return () => document.removeEventListener('pointerdown', onDown)
  }, [])
  const onKeyDown = (event) => {
    if (event.key !== 'Escape' || !ref.current.open) return
    event.preventDefault()
    close()
    button.current.focus()
  }
  const choose = (run) => {
    button.current.focus() // where the focus comes back to after a question
    close()
    run()
  }
  return (
    offered.length > 0 &&
    html`
      <details ref=${ref} class="menu" onKeyDown=${onKeyDown} onFocusOut=${(event) => isOutside(event.relatedTarget) && close()}>
        <summary ref=${button} class="button" aria-label=${label}><${Icon} name="more" /></summary>
        <ul>${offered.map(([text, run, isGrave]) => html`<li key=${text}><button class=${`button quiet ${isGrave ? 'error' : ''}`} type="button" onClick=${() => choose(run)}>${text}</button></li>`)}</ul>
      </details>`
  )
}
