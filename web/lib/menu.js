import { html, useEffect, useRef } from './html.js'
import { Icon } from './icons.js'

/** Buttons that are used rarely, behind one button: `actions` are `{label, run, isGrave}`. */
export function Menu({ label = 'More actions', actions }) {
  const menu = useRef()
  const close = () => {
    if (menu.current) menu.current.open = false
  }
  useEffect(() => {
    const onDown = (event) => !menu.current?.contains(event.target) && close()
    document.addEventListener('pointerdown', onDown)
    return () => document.removeEventListener('pointerdown', onDown)
  }, [])
  const onKeyDown = (event) => {
    if (event.key !== 'Escape' || !menu.current.open) return
    event.preventDefault()
    close()
    menu.current.firstElementChild.focus()
  }
  const run = (action) => {
    close()
    menu.current.firstElementChild.focus() // where a dialog that the action opens gives it back to
    action.run()
  }
  return html`
    <details ref=${menu} class="menu" onKeyDown=${onKeyDown} onFocusOut=${({ relatedTarget }) => relatedTarget && !menu.current.contains(relatedTarget) && close()}>
      <summary class="button" aria-label=${label}><${Icon} name="more" /></summary>
      <div class="menu-list">
        ${actions.map((action) => html`<button key=${action.label} type="button" class=${action.isGrave ? 'error' : ''} onClick=${() => run(action)}>${action.label}</button>`)}
      </div>
    </details>`
}
