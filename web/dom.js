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

export { announce, toast } from './lib/toast.js'

export function showProblem(error) {
  const words = error && error.code !== 'OFFLINE' ? error.message : ''
  $('problem').textContent = words
  $('problem').hidden = !words
}

export const wantsLessMotion = () => matchMedia('(prefers-reduced-motion: reduce)').matches
