/** Messages that come and go, outside of every view. */

let host
let hiding
const parts = () => {
  if (host) return host
  const node = document.createElement('div')
  Object.assign(node, { id: 'toast', className: 'toast', role: 'status', hidden: true })
  const text = document.createElement('span')
  const button = Object.assign(document.createElement('button'), { className: 'button quiet', type: 'button' })
  node.append(text, button)
  host = { node, text, button }
  return host
}

/** Shows a message for a while, with an action to take it back: `{label, run}`. */
export function toast(message, action) {
  const { node, text, button } = parts()
  clearTimeout(hiding)
  text.textContent = message
  button.hidden = !action
  button.textContent = action?.label ?? ''
  button.onclick = () => {
    hideToast()
    void action.run()
  }
  // A modal dialog covers everything outside of it, and makes it inert.
  const above = [...document.querySelectorAll('dialog[open]')].at(-1) ?? document.body
  if (node.parentElement !== above) above.append(node)
  node.hidden = false
  hiding = setTimeout(hideToast, 10_000)
}

/** Shows a message in the view that comes next: going to another view hides what was said in the one before. */
export const toastNext = (message) => addEventListener('hashchange', () => toast(message), { once: true })

export function hideToast() {
  if (host) host.node.hidden = true
}

/** Called before a dialog goes: its message goes on outside of it. */
export function saveToast(dialog) {
  if (host?.node.parentElement === dialog) document.body.append(host.node)
}

/** Tells a text to screen readers. A modal dialog makes everything outside of it inert, so that it has a place of its own. */
export function announce(text) {
  const above = [...document.querySelectorAll('dialog[open]')].at(-1)
  const node = above ? above.querySelector(':scope > .announcer') : document.getElementById('announcer')
  if (node) node.textContent = text
  else if (above) {
    const made = Object.assign(document.createElement('p'), { className: 'announcer visually-hidden', role: 'status' })
    above.append(made)
    // What is there from the start is not a change, which is what is read out.
    setTimeout(() => (made.textContent = text), 100)
  }
}
