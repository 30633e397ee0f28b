import { call, link } from '../lib/api.js'
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { uuidOf } from '../lib/ids.js'
import { nameOf } from '../lib/media.js'
import { NAMELESS } from '../lib/names.js'
import { Avatar, Problem } from '../lib/parts.js'
import { fieldWords, inWords } from '../lib/refusals.js'
import { toast } from '../lib/toast.js'
import { pickMedia } from '../library/picker.js'
import { draftOf, keepDraft, sendDraft, underwayAt } from './drafts.js'
import { labelFor, mentionAt, named, withIds, withMention } from './words.js'

const MAX_MEDIA = 4
const SUGGESTED = '6'
const PICTURE = html`<svg aria-hidden="true" viewBox="0 0 20 20" width="18" height="18"><rect x="2.5" y="4" width="15" height="12" rx="2" /><path d="m4 14 4-4.5 3 3 2-2 3 3.5" /><circle cx="13.5" cy="7.5" r="1" /></svg>`
const EMPTY = { text: '', chosen: new Map(), media: [] }

/**
 * A form to write a comment in: `@` offers members and those who take part in the event with this `path`, and up to four media items can be attached. `kept`: {base, slot, about}
 * says where what is unsent is kept, `initial` {text, chosen, media} is what it begins with. `send(body, key)` sends it,
 * and `onSent()` follows when the form is empty again; a refusal stays in the form, with what was typed. A form that is
 * opened while what an earlier one has sent is on its way waits for that.
 */
export function Composer({ org, path, label, submit, send, onSent, onCancel, kept, initial = EMPTY, hasFocus }) {
  const [draft, setDraft] = useState(
    () => draftOf(kept.base, kept.slot) ?? { ...initial, before: initial, about: kept.about },
  )
  const [problem, setProblem] = useState()
  const [isBusy, setBusy] = useState(() => Boolean(underwayAt(kept.base, kept.slot)))
  const field = useRef()
  const attach = useRef()
  const isGone = useRef(false)
  useLayoutEffect(() => hasFocus && field.current.focus(), [])
  useLayoutEffect(() => {
    const answer = underwayAt(kept.base, kept.slot)
    if (answer) void answered(answer)
    return () => {
      isGone.current = true
    }
  }, [])
  const latest = useRef(draft)
  const change = (changes) => {
    const next = { ...latest.current, ...changes }
    latest.current = next
    const isUnsent = next.text.trim() !== next.before.text.trim() || next.media.length !== next.before.media.length
    keepDraft(kept.base, kept.slot, isUnsent ? next : undefined)
    setDraft(next)
  }
  const { text, chosen, media } = draft
  const mentions = useMentions({
    path,
    org,
    field,
    chosen,
    onChosen: (label, id, text) => change({ text, chosen: new Map(chosen).set(label, id) }),
  })

  async function submitted(event) {
    event.preventDefault()
    if (isBusy) return
    const body = { body: withIds(text.trim(), chosen), media_ids: media.map((m) => m.media_id) }
    if (body.body === '') return setProblem('Write something first.')
    setProblem(undefined)
    setBusy(true)
    const answer = sendDraft(kept.base, kept.slot, { draft: latest.current, body, send: (key) => send(body, key) })
    latest.current = draftOf(kept.base, kept.slot)
    await answered(answer)
  }
  async function answered(answer) {
    try {
      await answer
    } catch (refusal) {
      setBusy(false)
      setProblem(Object.values(fieldWords(refusal))[0] ?? inWords(refusal))
      if (isGone.current && draftOf(kept.base, kept.slot))
        toast('Your comment is not sent. It is kept where you wrote it.')
      return
    }
    setBusy(false)
    latest.current = { ...EMPTY, before: EMPTY, about: kept.about }
    setDraft(latest.current)
    if (field.current?.form.contains(document.activeElement)) field.current.focus()
    await onSent()
  }
  const cancel = () => {
    keepDraft(kept.base, kept.slot)
    onCancel()
  }
  const onKeyDown = (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) return event.currentTarget.form.requestSubmit()
    mentions.onKeyDown(event)
    if (event.key !== 'Escape' || event.defaultPrevented || event.isComposing || !onCancel || isBusy) return
    // The viewer would close. What has been typed is not thrown away by a key.
    event.preventDefault()
    if (draftOf(kept.base, kept.slot)) event.currentTarget.form.querySelector('.cancel').focus()
    else cancel()
  }
  const onText = (text) => {
    change({ text })
    mentions.onInput()
  }
  const choose = () =>
    pickMedia({
      ...{ org, title: 'Attach photos', label: 'Attach', most: MAX_MEDIA - media.length },
      has: (id) => media.some((m) => m.media_id === id),
      run: async (picked) => change({ media: [...latest.current.media, ...picked] }),
      onChosen: () => (attach.current ?? field.current)?.focus(),
    })
  const takeOff = (m, { currentTarget }) => {
    const item = currentTarget.closest('li')
    const near = item.nextElementSibling ?? item.previousElementSibling
    ;(near?.querySelector('button') ?? attach.current ?? field.current).focus()
    change({ media: media.filter((other) => other !== m) })
  }
  return html`
    <form class="composer" novalidate onSubmit=${submitted}>
      <div class="composer-field">
        <textarea
          ref=${field} rows="2" maxlength="4000" dir="auto" aria-label=${label} placeholder=${label} value=${text} readonly=${isBusy}
          onInput=${({ target }) => onText(target.value)} onKeyDown=${onKeyDown}
          onBlur=${mentions.close} ...${mentions.aria}
        ></textarea>
        <${Suggestions} ...${mentions} />
      </div>
      ${
        media.length > 0 &&
        html`
          <ul class="attached" aria-label="Attached">
            ${media.map(
              (m) => html`
                <li key=${m.media_id}>
                  ${m.variants?.image_thumb_url && html`<img alt="" src=${link(m.variants.image_thumb_url)} />`}
                  <button class="take-off" type="button" aria-label=${`Take ${nameOf(m)} off`} onClick=${(event) => takeOff(m, event)}><${Icon} name="close" size="12" /></button>
                </li>`,
            )}
          </ul>`
      }
      <${Problem} class="small" text=${problem} />
      <div class="composer-foot">
        ${media.length < MAX_MEDIA && !org.isGuest && html`<button ref=${attach} class="button quiet attach" type="button" onClick=${choose}>${PICTURE}Attach photos</button>`}
        <span class="spring"></span>
        ${onCancel && html`<button class="button quiet cancel" type="button" onClick=${cancel}>Cancel</button>`}
        <button class="button primary send" type="submit" aria-disabled=${isBusy ? 'true' : undefined}>${submit}</button>
      </div>
    </form>`
}

const NO_MEMBERS = { members: [] }

/** Guests are in no list of members. Without them, members are offered nevertheless. */
const participantsOf = (path) =>
  call('GET', `${path}/participants?limit=500`).then(
    ({ participants }) => participants.filter(({ status, display_name }) => status === 'accepted' && display_name),
    () => [],
  )

/**
 * The members, and those who take part, whose names contain what is typed after `@`. The field stays a text field that controls a list: an element
 * for text of several lines cannot be a combobox.
 */
function useMentions({ org, path, field, chosen, onChosen }) {
  const id = useId()
  const [members, setMembers] = useState([])
  const [active, setActive] = useState(0)
  const mention = useRef()
  const people = useRef()
  const asked = useRef(0)
  const timer = useRef()
  useEffect(() => () => clearTimeout(timer.current), [])
  const offer = (found) => {
    setMembers(found)
    setActive(0)
  }
  const close = () => {
    asked.current++
    clearTimeout(timer.current)
    offer([])
  }
  async function suggest() {
    const turn = ++asked.current
    const { value, selectionStart, selectionEnd } = field.current
    mention.current = selectionStart === selectionEnd ? mentionAt(value, selectionStart) : undefined
    // What was chosen is no longer being typed.
    if (!mention.current || chosen.has(`@${mention.current.query}`)) return offer([])
    const query = new URLSearchParams({
      limit: SUGGESTED,
      ...(mention.current.query && { query: mention.current.query }),
    })
    people.current ??= participantsOf(path)
    const [{ members: found }, participants] = await Promise.all([
      org.isGuest
        ? NO_MEMBERS
        : call('GET', `/api/organizations/${org.org_id}/members?${query}`).catch(() => NO_MEMBERS),
      people.current,
    ])
    const known = new Set(found.map(({ user_id }) => uuidOf(user_id)))
    const guests = named(participants, mention.current?.query ?? '').filter(
      ({ user_id }) => !known.has(uuidOf(user_id)),
    )
    if (turn === asked.current) offer([...found, ...guests].slice(0, Number(SUGGESTED)))
  }
  function choose(i) {
    const { user_id, display_name } = members[i]
    const label = labelFor({ id: user_id, name: display_name ?? NAMELESS }, chosen)
    const next = withMention(field.current.value, field.current.selectionStart, mention.current, label)
    field.current.value = next.text
    field.current.setSelectionRange(next.caret, next.caret)
    close()
    onChosen(label, user_id, next.text)
    field.current.focus()
  }
  const KEYS = {
    ArrowDown: () => setActive((active + 1) % members.length),
    ArrowUp: () => setActive((active + members.length - 1) % members.length),
    Enter: () => choose(active),
    Tab: () => choose(active),
    Escape: close,
  }
  const isOpen = members.length > 0
  return {
    ...{ id, members, active, choose, close },
    aria: {
      'aria-autocomplete': 'list',
      'aria-haspopup': 'listbox',
      'aria-controls': isOpen ? id : undefined,
      'aria-activedescendant': isOpen ? `${id}-${active}` : undefined,
    },
    onInput() {
      clearTimeout(timer.current)
      timer.current = setTimeout(suggest, 120)
    },
    onKeyDown(event) {
      if (!isOpen || !KEYS[event.key] || event.isComposing) return
      event.preventDefault()
      event.stopPropagation()
      KEYS[event.key]()
    },
  }
}

const Suggestions = ({ id, members, active, choose }) => html`
  <p class="visually-hidden" role="status">${members.length > 0 && `${members.length} to choose from, with the arrow keys`}</p>
  ${
    members.length > 0 &&
    html`
      <ul id=${id} class="suggestions" role="listbox" aria-label="Members">
        ${members.map(
          ({ user_id, display_name: name }, i) => html`
            <li
              key=${user_id} id=${`${id}-${i}`} class="suggestion" role="option" aria-selected=${String(i === active)} dir="auto"
              onPointerDown=${keepFocus} onClick=${() => choose(i)}
            ><${Avatar} name=${name ?? '?'} /><bdi>${name ?? NAMELESS}</bdi></li>`,
        )}
      </ul>`
  }`

/** The text keeps the focus. */
const keepFocus = (event) => event.preventDefault()
