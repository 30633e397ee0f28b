import { call } from '../lib/api.js'
import { classes, html, useEffect, useRef, useState } from '../lib/html.js'
import { inWords } from '../lib/refusals.js'
import { toast } from '../lib/toast.js'
import { EMOJI_NAMES, EMOJIS, recount } from './words.js'

/**
 * The six emojis with their counts. `target`: {reaction_counts, my_reaction}, undefined while it is loaded; `place`: {path,
 * type, id} of what they are to. A reaction shows at once, and is taken back when the API refuses it; then `onChanged()`.
 */
export function Reactions({ target, place, mayReact, onChanged }) {
  /** What the viewer has made of the target. It is shown until a look that began later has ended. */
  const [mine, setMine] = useState()
  const shown = useRef()
  shown.current = mine ?? target
  /** One request after the other: a click while one is on its way counts once it is answered. */
  const queue = useRef(Promise.resolve())
  const waiting = useRef(0)
  useEffect(() => {
    if (waiting.current === 0) setMine(undefined)
  }, [target])
  const show = (next) => {
    shown.current = next
    setMine(next)
  }
  async function toggle(emoji) {
    const before = shown.current
    const own = before.my_reaction
    const next = own?.emoji === emoji ? null : emoji
    const counted = { ...before, reaction_counts: recount(before.reaction_counts, own?.emoji, next) }
    show({ ...counted, my_reaction: next && { ...own, emoji } })
    try {
      show(next ? await give(counted, place, emoji) : await take(counted, place, own))
    } catch (error) {
      show(before)
      toast(inWords(error))
    }
  }
  const click = (emoji) => {
    waiting.current++
    queue.current = queue.current.then(async () => {
      await toggle(emoji)
      if (--waiting.current === 0) onChanged()
    })
  }
  const { reaction_counts: counts, my_reaction: own } = shown.current ?? {}
  return html`
    <div class=${classes('reactions', !mayReact && 'fixed')} role="group" aria-label="Reactions">
      ${EMOJIS.map((emoji, i) => {
        const count = counts?.[emoji] ?? 0
        const label = `React with ${EMOJI_NAMES[i]}${counts ? `, ${count.toLocaleString()} so far` : ''}`
        return html`
          <button
            key=${emoji} class=${classes('reaction', count === 0 && 'unused')} type="button" disabled=${!mayReact || !counts}
            aria-label=${label} aria-pressed=${String(own?.emoji === emoji)} onClick=${() => click(emoji)}
          ><span class="face" aria-hidden="true">${emoji}</span><span class="number">${count === 0 ? '' : count.toLocaleString()}</span></button>`
      })}
    </div>`
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
