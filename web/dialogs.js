import { $ } from './dom.js'

const SHEETS = document.querySelectorAll('dialog.sheet')

export function closeDialogs() {
  for (const dialog of SHEETS) if (dialog.open) dialog.close()
}

// A click beside a dialog does not close it: what was typed would be lost.
for (const dialog of SHEETS) {
  for (const button of dialog.querySelectorAll('[data-close]')) button.addEventListener('click', () => dialog.close())
}

/** Asks before something that cannot be taken back. `run` does it; a refusal stays in the dialog, in the words of `say`. */
export function ask({ title, text, label, run, say }) {
  $('ask-title').textContent = title
  $('ask-text').textContent = text
  $('ask-do').textContent = label
  $('ask-error').hidden = true
  $('ask-do').onclick = async () => {
    $('ask-do').disabled = true
    try {
      await run()
      $('ask').close()
    } catch (error) {
      sayIn('ask-error', say(error))
    } finally {
      $('ask-do').disabled = false
    }
  }
  $('ask').showModal()
}

/** Shows a text in an element for errors, or hides it. */
export function sayIn(id, text) {
  $(id).textContent = text ?? ''
  $(id).hidden = !text
}
