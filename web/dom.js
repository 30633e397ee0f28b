import { hue } from './words.js'

export const $ = (id) => document.getElementById(id)

/** A copy of the only element of a template. */
export const copyOf = (template) => $(template).content.firstElementChild.cloneNode(true)

/**
 * Makes `children` the children of a list. First what goes, then what comes: the rest keeps its place, its focus, and what
 * is typed or plays in it.
 */
export function arrange(list, children, onGone = () => {}) {
  const stay = new Set(children)
  for (const child of [...list.children]) {
    if (stay.has(child)) continue
    onGone(child)
    child.remove()
  }
  for (const [i, child] of children.entries()) {
    if (list.children[i] !== child) list.insertBefore(child, list.children[i] ?? null)
  }
}

/** A circle with the initial of a name. */
export function avatar(name) {
  const initial = Object.assign(document.createElement('span'), { className: 'avatar', textContent: [...name][0] })
  initial.style.setProperty('--hue', hue(name))
  initial.ariaHidden = 'true'
  return initial
}

/** Announces a text to screen readers. */
export function announce(text) {
  $('announcer').textContent = text
}

export function showProblem(error) {
  $('problem').textContent = error ? error.message : ''
  $('problem').hidden = !error
}

let hiding

/** Shows a message for a while, with an action to take it back: `{label, run}`. */
export function toast(text, action) {
  clearTimeout(hiding)
  $('toast-text').textContent = text
  $('toast-action').hidden = !action
  $('toast-action').textContent = action?.label ?? ''
  $('toast-action').onclick = () => {
    $('toast').hidden = true
    void action.run()
  }
  // A modal dialog covers everything outside of it.
  const host = document.querySelector('dialog[open]') ?? document.body
  if ($('toast').parentElement !== host) host.append($('toast'))
  $('toast').hidden = false
  hiding = setTimeout(() => {
    $('toast').hidden = true
  }, 10_000)
}

export const wantsLessMotion = () => matchMedia('(prefers-reduced-motion: reduce)').matches
