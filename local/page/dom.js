export const $ = (id) => document.getElementById(id)

/** Announces a text to screen readers. */
export function announce(text) {
  $('announcer').textContent = text
}

export function showProblem(error) {
  $('problem').textContent = error ? error.message : ''
  $('problem').hidden = !error
}
