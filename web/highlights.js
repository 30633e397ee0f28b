import { $, showProblem } from './dom.js'
import { newFilmCards } from './film-card.js'
import { chooseForHighlight } from './highlight-form.js'
import { newPager } from './pager.js'
import { inWords } from './refusal-words.js'
import { linkToHighlight } from './views.js'

const BUSY_MS = 2500
const LOOK_MS = 30_000
const HIDDEN_MS = 60_000

const cards = newFilmCards($('highlight-cards'))
let organization
let list
let timer

/** The highlights of a group that the person can see, newest first. */
export async function openHighlights(org) {
  if (org !== organization) {
    cards.show([])
    $('highlights-empty').hidden = true
  }
  organization = org
  $('highlights-summary').textContent = org.name
  list = newPager(`/api/media/${org.org_id}/highlights`, 'highlights', { limit: '24' })
  await look()
}

/** Answers that arrive later belong to no view. */
export function closeHighlights() {
  clearTimeout(timer)
  list = undefined
}

/** Looks again soon while one of them is being made. */
async function look() {
  clearTimeout(timer)
  const mine = list
  if (!mine) return
  await load(mine.again())
  if (mine !== list) return
  const isBusy = mine.items().some(({ status }) => status === 'processing')
  timer = setTimeout(look, document.hidden ? HIDDEN_MS : isBusy ? BUSY_MS : LOOK_MS)
}

async function load(request) {
  const mine = list
  try {
    await request
    if (mine !== list) return
    showProblem()
    render()
  } catch (error) {
    if (mine === list && error.status !== 429) showProblem(new Error(inWords(error)))
  }
}

function render() {
  const highlights = list.items()
  $('highlights-empty').hidden = highlights.length > 0
  cards.show(highlights)
  $('highlights-more').hidden = !list.hasMore()
}

function create() {
  // A person without a group has no list either.
  if (!list) return
  void chooseForHighlight({ org: organization, onMade: (id) => location.assign(linkToHighlight(id)) })
}
for (const id of ['new-highlight', 'first-highlight']) $(id).addEventListener('click', create)
$('highlights-more').addEventListener('click', () => void load(list.more()))
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) void look()
})
