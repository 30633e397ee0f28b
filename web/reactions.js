import { call } from './client.js'
import { EMOJI_NAMES, EMOJIS, recount } from './comment-words.js'
import { toast } from './dom.js'
import { inWords } from './refusal-words.js'

/**
 * The six emojis with their counts. `target`: {reaction_counts, my_reaction}, without counts while they are loaded;
 * `place`: {path, type, id} of the event, and `mayReact`. A reaction shows at once, and is taken back when the API refuses it.
 */
export function reactionBar({ onChanged }) {
  const bar = Object.assign(document.createElement('div'), { className: 'reactions', role: 'group', ariaLabel: 'Reactions' })
  let shown
  /** One request after the other: a click while one is on its way counts once it is answered. */
  let queue = Promise.resolve()
  let waiting = 0
  const buttons = EMOJIS.map((emoji, i) => {
    const button = Object.assign(document.createElement('button'), { type: 'button', className: 'reaction' })
    const [face, count] = ['face', 'number'].map((className) => Object.assign(document.createElement('span'), { className }))
    face.textContent = emoji
    face.ariaHidden = 'true'
    button.append(face, count)
    button.dataset.emoji = EMOJI_NAMES[i]
    button.addEventListener('click', () => enqueue(emoji))
    return button
  })
  bar.append(...buttons)

  function render() {
    const { target, mayReact } = shown
    const mine = target.my_reaction?.emoji
    for (const [i, emoji] of EMOJIS.entries()) {
      const count = target.reaction_counts?.[emoji] ?? 0
      const button = buttons[i]
      button.querySelector('.number').textContent = count === 0 ? '' : count.toLocaleString()
      button.ariaPressed = String(mine === emoji)
      button.ariaLabel = `React with ${EMOJI_NAMES[i]}${target.reaction_counts ? `, ${count} so far` : ''}`
      button.classList.toggle('none', count === 0)
      button.disabled = !mayReact
    }
    bar.classList.toggle('fixed', !mayReact)
  }

  function enqueue(emoji) {
    const { id } = shown.place
    waiting++
    queue = queue.then(async () => {
      if (shown.place.id === id) await toggle(emoji)
      waiting--
    })
  }

  async function toggle(emoji) {
    const { target, place } = shown
    const before = target.my_reaction
    const next = before?.emoji === emoji ? null : emoji
    const reaction_counts = recount(target.reaction_counts, before?.emoji, next)
    show({ ...target, reaction_counts, my_reaction: next && { ...before, emoji } })
    // Another target may be shown before the answer comes.
    const showHere = (next) => shown.place.id === place.id && show(next)
    try {
      const after = next ? await give(target, place, emoji) : await take({ ...target, reaction_counts }, place, before)
      showHere(after)
      onChanged(after, place)
    } catch (error) {
      showHere(target)
      toast(inWords(error))
    }
  }

  const show = (target) => {
    shown = { ...shown, target }
    render()
  }

  return {
    element: bar,
    update(given) {
      if (waiting > 0 && shown.place.id === given.place.id) return
      shown = given
      render()
    },
  }
}

async function give(target, { path, type, id }, emoji) {
  const { reaction_id, counts } = await call('POST', `${path}/reactions/${type}`, { action_id: id, emoji })
  return { ...target, reaction_counts: counts, my_reaction: { reaction_id, emoji } }
}

async function take(target, { path, type }, { reaction_id }) {
  // It may have been removed in another window.
  await call('DELETE', `${path}/reactions/${type}/${reaction_id}`).catch((error) => {
    if (error.status !== 404) throw error
  })
  return { ...target, my_reaction: null }
}
