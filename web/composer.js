import { call, link, newAttempts } from './client.js'
import { labelFor, mentionAt, withIds, withMention } from './comment-words.js'
import { avatar, copyOf } from './dom.js'
import { NAMELESS } from './lib/names.js'
import { nameOf } from './item.js'
import { pickMedia } from './picker.js'
import { fieldWords, inWords } from './refusal-words.js'

const MAX_MEDIA = 4
const SUGGESTED = '6'
let count = 0

/**
 * A form to write a comment in: `@` offers members, and up to four media items can be attached. `draft`: {text, chosen,
 * media} to begin with. `send(body, key)` sends it; a refusal stays in the form, with what was typed.
 */
export function newComposer({ org, label, submit, send, onCancel, draft }) {
  const form = copyOf('composer')
  const find = (part) => form.querySelector(part)
  const [text, list, error] = [find('textarea'), find('.suggestions'), find('.error')]
  const attempts = newAttempts()
  const id = `composer-${++count}`
  /** Members by what stands for them in the text. */
  let chosen = new Map(draft?.chosen)
  let media = draft?.media ?? []
  let suggested = []
  let active = 0
  let mention
  let asked = 0

  const before = { text: draft?.text ?? '', media: media.length }
  text.value = before.text
  text.ariaLabel = label
  text.placeholder = label
  list.id = `${id}-list`
  text.setAttribute('aria-controls', list.id)
  find('.send').textContent = submit
  find('.cancel').hidden = !onCancel
  find('.cancel').addEventListener('click', () => onCancel())

  const say = (words) => {
    error.textContent = words ?? ''
    error.hidden = !words
  }

  async function suggest() {
    const mine = ++asked
    mention = text.selectionStart === text.selectionEnd ? mentionAt(text.value, text.selectionStart) : undefined
    if (!mention) return offer([])
    // What was chosen is no longer being typed.
    if (chosen.has(`@${mention.query}`)) return offer([])
    const query = new URLSearchParams({ limit: SUGGESTED, ...(mention.query && { query: mention.query }) })
    const { members } = await call('GET', `/api/organizations/${org.org_id}/members?${query}`).catch(() => ({ members: [] }))
    if (mine === asked) offer(members)
  }

  function offer(members) {
    suggested = members
    active = 0
    list.hidden = members.length === 0
    text.ariaExpanded = String(members.length > 0)
    list.replaceChildren(...members.map(optionOf))
    mark()
  }

  function optionOf({ display_name: name }, i) {
    const option = document.createElement('li')
    Object.assign(option, { id: `${id}-${i}`, role: 'option', className: 'suggestion', dir: 'auto' })
    option.append(avatar(name ?? '?'), Object.assign(document.createElement('bdi'), { textContent: name ?? NAMELESS }))
    // The field keeps the focus.
    option.addEventListener('pointerdown', (event) => event.preventDefault())
    option.addEventListener('click', () => choose(i))
    return option
  }

  function mark() {
    for (const [i, option] of [...list.children].entries()) option.ariaSelected = String(i === active)
    if (suggested.length > 0) text.setAttribute('aria-activedescendant', `${id}-${active}`)
    else text.removeAttribute('aria-activedescendant')
  }

  function choose(i) {
    const { user_id, display_name } = suggested[i]
    const member = { id: user_id, name: display_name ?? NAMELESS }
    const label = labelFor(member, chosen)
    chosen.set(label, user_id)
    const next = withMention(text.value, text.selectionStart, mention, label)
    text.value = next.text
    text.setSelectionRange(next.caret, next.caret)
    asked++
    offer([])
    text.focus()
  }

  const KEYS = {
    ArrowDown: () => (active = (active + 1) % suggested.length),
    ArrowUp: () => (active = (active + suggested.length - 1) % suggested.length),
    Enter: () => choose(active),
    Tab: () => choose(active),
    Escape: () => offer([]),
  }
  text.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) return form.requestSubmit()
    if (suggested.length === 0 || !KEYS[event.key] || event.isComposing) return
    event.preventDefault()
    event.stopPropagation()
    KEYS[event.key]()
    mark()
  })
  /** In the element, so that a whole discussion can be asked for what is unsent in it. */
  function markUnsent() {
    const isUnsent = text.value.trim() !== before.text.trim() || media.length !== before.media
    form.toggleAttribute('data-unsent', isUnsent)
    return isUnsent
  }

  let typing
  text.addEventListener('input', () => {
    markUnsent()
    clearTimeout(typing)
    typing = setTimeout(() => void suggest(), 120)
  })
  text.addEventListener('blur', () => {
    asked++
    offer([])
  })

  function showMedia() {
    find('.attached').hidden = media.length === 0
    find('.attached').replaceChildren(...media.map(attachedElement))
    find('.attach').hidden = media.length >= MAX_MEDIA
    markUnsent()
  }

  function attachedElement(m) {
    const item = copyOf('attached')
    const url = m.variants?.image_thumb_url
    if (url) item.querySelector('img').src = link(url)
    const button = item.querySelector('button')
    button.ariaLabel = `Take ${nameOf(m)} off`
    button.addEventListener('click', () => {
      media = media.filter((other) => other !== m)
      showMedia()
    })
    return item
  }

  find('.attach').addEventListener('click', () => {
    const there = new Set(media.map((m) => m.media_id))
    void pickMedia({
      ...{ org, title: 'Attach photos', label: 'Attach', most: MAX_MEDIA - media.length },
      has: (other) => there.has(other),
      async run(picked) {
        media = [...media, ...picked]
        showMedia()
      },
    })
  })

  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    const body = { body: withIds(text.value.trim(), chosen), media_ids: media.map((m) => m.media_id) }
    if (body.body === '') return say('Write something first.')
    say()
    find('.send').disabled = true
    try {
      await send(body, attempts.keyFor(body))
      attempts.done()
      text.value = ''
      chosen = new Map()
      media = []
      showMedia()
    } catch (refusal) {
      say(Object.values(fieldWords(refusal))[0] ?? inWords(refusal))
    } finally {
      find('.send').disabled = false
    }
  })
  showMedia()
  return { element: form, focus: () => text.focus(), isUnsent: markUnsent }
}
