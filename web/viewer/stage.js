import { link } from '../lib/api.js'
import { html, useEffect, useRef, useState } from '../lib/html.js'
import { describe, isPlayable, kindOf, nameOf } from '../lib/media.js'
import { Blur } from '../lib/picture.js'
import { Player } from './player.js'

const SWIPE = 50
const SWIPE_DOWN = 90

/** What is shown, as large as there is room. `go(±1)` and `back()` are what a finger does that swipes. */
export function Stage({ frame, m, does, go, back }) {
  const [problem, setProblem] = useState()
  const touch = useRef()
  const { media_id: id } = m
  const isVideo = isPlayable(m)
  useEffect(() => setProblem(undefined), [m])
  const caption = does.captionOf?.(m)
  const note = problem ?? noteOf(m)
  const onTouchStart = ({ touches: [first], touches }) => {
    touch.current = touches.length === 1 ? { x: first.clientX, y: first.clientY } : undefined
  }
  const onTouchEnd = ({ changedTouches: [last], target }) => {
    if (!touch.current || target.closest('video, select')) return
    const [dx, dy] = [last.clientX - touch.current.x, last.clientY - touch.current.y]
    if (Math.abs(dx) > SWIPE && Math.abs(dx) > 2 * Math.abs(dy)) void go(dx < 0 ? 1 : -1)
    else if (dy > SWIPE_DOWN && dy > 2 * Math.abs(dx)) back()
  }
  return html`
    <div ref=${frame} id="viewer-stage" class="stage" data-kind=${kindOf(m)} onTouchStart=${onTouchStart} onTouchEnd=${onTouchEnd}>
      ${
        isVideo
          ? html`<${Player} key=${id} m=${m} version=${m.upload_status} refresh=${() => does.refresh(m)} onProblem=${setProblem} />`
          : html`<${Still} key=${id} m=${m} refresh=${() => does.refresh(m)} />`
      }
      ${note && html`<p id="viewer-note" class="note" role="status">${note}</p>`}
      ${caption && html`<p id="viewer-caption" class="viewer-caption" dir="auto">${caption}</p>`}
    </div>`
}

const noteOf = (m) =>
  m.upload_status === 'processing' && isPlayable(m)
    ? `${describe(m)}. Better quality follows when it is converted`
    : describe(m)

/** The blur at once, then the thumbnail that the grid has loaded, then the photo itself. */
function Still({ m, refresh }) {
  const { image_webp_url: large, image_url: full, image_thumb_url: small } = m.variants
  const best = large ?? full ?? small
  const [shown, setShown] = useState()
  useEffect(() => {
    if (!best) return
    let isGone = false
    const whole = new Image()
    whole.src = link(best)
    const again = async () => {
      // A link that has expired: once more with new ones.
      const fresh = await Promise.resolve(refresh()).catch(() => undefined)
      const url = fresh?.variants.image_webp_url ?? fresh?.variants.image_url
      if (url && !isGone) setShown({ src: link(url) })
    }
    whole.decode().then(
      () => isGone || setShown({ src: whole.src, isWhole: true }),
      () => isGone || again(),
    )
    return () => {
      isGone = true
    }
  }, [m.upload_status, Boolean(best)])
  return html`
    <${Blur} hash=${m.placeholder} />
    ${best && html`<img id="viewer-picture" src=${shown?.src ?? link(small ?? best)} alt=${nameOf(m)} data-loaded=${shown?.isWhole && m.media_id} />`}
    ${!best && !m.placeholder && html`<p class="nothing">${m.upload_status === 'failed' ? 'No preview' : 'The preview follows'}</p>`}`
}
