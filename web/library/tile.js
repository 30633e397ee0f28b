import { html, useEffect, useRef, useState } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { describe, detailsOf, isPlayable, KINDS, kindOf, knownDuration, nameOf, stateOf } from '../lib/media.js'
import { may } from '../lib/permissions.js'
import { Picture } from '../lib/picture.js'
import { announce } from '../lib/toast.js'
import { clock, day, hue } from '../lib/words.js'
import { playOnHover } from '../viewer/live-photo.js'

const NEWS = { playable: 'can be played', completed: 'is ready', failed: 'could not be converted' }

/**
 * A tile of a grid. `does`: {open(id, event), find(id), refresh(m), remove(id)}; without `remove`, nothing is
 * deleted from there. `mark`, when tiles are chosen: {isChosen, place, isThere}. `children` stand below the picture.
 */
export function Tile({ m, does, mark, children }) {
  const tile = useRef()
  const frame = useRef()
  const state = stateOf(m)
  const kind = kindOf(m)
  useDetails(m, kind, state)
  useNews(m, state)
  useEffect(() => playOnHover(tile.current, frame.current, () => does.find(m.media_id), does.refresh), [m.media_id])
  const text = describe(m)
  const duration = knownDuration(m)
  const long = duration === undefined ? '' : clock(duration)
  const what = isPlayable(m) ? 'Play' : KINDS[kind]
  // The name contains what the badge and the state show, in their order: people who speak to their device say what they see.
  const label = [`${what} ${nameOf(m)}`, day(m.captured_at ?? m.created_at), long, text].filter(Boolean).join(', ')
  const chosen = mark && { 'aria-pressed': String(mark.isChosen), disabled: mark.isThere, 'data-place': mark.place }
  return html`
    <li ref=${tile} class=${`tile ${mark?.isThere ? 'there' : ''}`} data-media=${m.media_id} data-state=${state} data-kind=${kind}>
      <button ref=${frame} class="frame" type="button" style=${{ '--hue': hue(m.media_id) }} aria-label=${label} ...${chosen} onClick=${(event) => does.open(m.media_id, event)}>
        <${Picture} m=${m} refresh=${() => does.refresh(m)} />
        <span class="badge">${{ live: 'Live', video: long }[kind] ?? ''}</span>${' '}
        <span class="state">${text}</span>
        ${['processing', 'playable'].includes(state) && html`<span class="meter" aria-hidden="true"><span style=${{ width: `${m.conversion_progress?.percent ?? 0}%` }}></span></span>`}
      </button>
      ${
        !mark &&
        does.remove &&
        may(m, 'media.delete') &&
        html`<button class="remove" type="button" aria-label=${`Delete ${nameOf(m)}`} onClick=${() => does.remove(m.media_id)}><${Icon} name="trash" size="16" /></button>`
      }
      ${children}
    </li>`
}

/** A list does not say how long a video lasts, nor why a conversion failed. */
function useDetails(m, kind, state) {
  const [, setKnown] = useState(0)
  useEffect(() => {
    if (!(state === 'failed' || (kind === 'video' && state === 'completed' && knownDuration(m) === undefined))) return
    let isGone = false
    void detailsOf(m).then(
      () => isGone || setKnown((count) => count + 1),
      () => {},
    )
    return () => {
      isGone = true
    }
  }, [m.media_id, state])
}

function useNews(m, state) {
  const before = useRef(state)
  useEffect(() => {
    if (before.current !== state && NEWS[state]) announce(`${nameOf(m)} ${NEWS[state]}`)
    before.current = state
  }, [state])
}
