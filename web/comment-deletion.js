import { call } from './client.js'
import { sayIn } from './dialogs.js'
import { $, announce } from './dom.js'
import { inWords } from './refusal-words.js'

let deleting

/** Asks for a reason and deletes the comment at `path`; then `done` is called. */
export function askToDelete(wanted) {
  deleting = wanted
  $('comment-reason').value = ''
  sayIn('comment-delete-error')
  $('comment-delete').showModal()
}

$('comment-delete-form').addEventListener('submit', async (event) => {
  event.preventDefault()
  const { path, done } = deleting
  const reason = $('comment-reason').value.trim()
  $('comment-delete-do').disabled = true
  try {
    await call('DELETE', path, reason === '' ? {} : { reason })
    $('comment-delete').close()
    announce('The comment is deleted')
    await done()
  } catch (error) {
    sayIn('comment-delete-error', inWords(error))
  } finally {
    $('comment-delete-do').disabled = false
  }
})
