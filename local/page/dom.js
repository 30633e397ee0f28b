export const $ = (id) => document.getElementById(id)

/** Tells those who listen instead of look. */
export function announce(text) {
  $('announcer').textContent = text
}

export function showProblem(error) {
  $('problem').textContent = error ? error.message : ''
  $('problem').hidden = !error
}
