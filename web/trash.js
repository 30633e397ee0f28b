import { call } from './client.js'
import { $, announce, copyOf, showProblem } from './dom.js'
import { kindOf, nameOf } from './item.js'
import { drawPlaceholder } from './picture.js'
import { daysLeft, hue, size } from './words.js'

let organization
let cursor
let asked = 0

/** Shows what was deleted and can be restored. The links of deleted media items do not work, so there are only blurs. */
export async function openTrash(org) {
  organization = org
  cursor = undefined
  $('trash-list').replaceChildren()
  await more()
}

async function more() {
  const mine = ++asked
  const query = new URLSearchParams({ limit: '60', ...(cursor && { cursor }) })
  try {
    const page = await call('GET', `/api/media/${organization.org_id}/trash?${query}`)
    if (mine !== asked) return
    cursor = page.next_cursor
    $('trash-list').append(...page.media.map(card))
    $('trash-more').hidden = !page.has_more
    showEmpty()
    showProblem()
  } catch (error) {
    showProblem(error)
  }
}

function showEmpty() {
  $('trash-empty').hidden = $('trash-list').children.length > 0 || !$('trash-more').hidden
}

const KINDS = { photo: 'Photo', live: 'Live Photo', video: 'Video' }

function card(m) {
  const row = copyOf('trashed')
  row.dataset.media = m.media_id
  row.querySelector('.picture').style.setProperty('--hue', hue(m.media_id))
  const canvas = row.querySelector('.blur')
  canvas.hidden = !drawPlaceholder(canvas, m.placeholder)
  row.querySelector('.name').textContent = nameOf(m)
  row.querySelector('.name').title = nameOf(m)
  row.querySelector('.left').textContent = daysLeft(m.purge_at)
  row.querySelector('.facts').textContent = `${KINDS[kindOf(m)]} · ${size(m.file_size_bytes)}`
  const button = row.querySelector('.restore')
  button.ariaLabel = `Restore ${nameOf(m)}`
  button.addEventListener('click', async () => {
    button.disabled = true
    try {
      await restore(m)
      const next = row.nextElementSibling ?? row.previousElementSibling
      row.remove()
      ;(next?.querySelector('.restore') ?? $('trash-title')).focus()
      announce(`${nameOf(m)} is back among the photos`)
      showEmpty()
      showProblem()
    } catch (error) {
      button.disabled = false
      showProblem(error.status === 404 ? new Error(`${nameOf(m)} was deleted by an administrator, and only an administrator can restore it.`) : error)
    }
  })
  return row
}

export const restore = (m) => call('POST', `/api/media/${m.org_id}/${m.media_id}/restore`)

$('trash-more').addEventListener('click', () => void more())
