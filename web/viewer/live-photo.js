import Hls from 'hls.js'
import { link } from '../lib/api.js'
import { HLS } from './hls-settings.js'

let stopCurrent = () => {}

/**
 * Plays the motion of a Live Photo once over its still picture in `frame`, without sound, and shows the still again at
 * the end. One plays at a time. `refresh` returns the media item with new links, when the present ones have expired.
 * Returns a function that stops it.
 */
export function playLivePhoto(frame, m, refresh) {
  stopCurrent()
  const video = Object.assign(document.createElement('video'), { muted: true, playsInline: true, className: 'motion' })
  video.ariaHidden = 'true'
  video.tabIndex = -1
  let player
  let stopped = false

  function stop() {
    if (stopped) return
    stopped = true
    player?.destroy()
    video.removeAttribute('src')
    video.remove()
    frame.classList.remove('moving')
  }

  function load(item, isRetry) {
    player?.destroy()
    const source = link(item?.variants.live_photo_video_url)
    if (!source || stopped) return stop()
    if (!Hls.isSupported()) {
      video.src = source // Safari on a phone plays HLS natively
      return
    }
    player = new Hls({ ...HLS, maxBufferLength: 10 })
    player.on(Hls.Events.ERROR, (_, { fatal }) => {
      if (!fatal) return
      if (isRetry) return stop()
      refresh(m).then((fresh) => load(fresh, true), stop)
    })
    player.loadSource(source)
    player.attachMedia(video)
  }

  video.addEventListener('playing', () => frame.classList.add('moving'))
  video.addEventListener('ended', stop)
  video.addEventListener('canplay', () => video.play().catch(stop), { once: true })
  frame.append(video)
  load(m, false)
  stopCurrent = stop
  return stop
}

const HOLD_MS = 300

/** Plays while the pointer rests on `target`, and while a finger holds it. `itemOf` returns the present media item. */
export function playOnHover(target, frame, itemOf, refresh) {
  let stop = () => {}
  let holding
  const start = () => {
    const m = itemOf()
    if (m?.variants.live_photo_video_url) stop = playLivePhoto(frame, m, refresh)
  }
  const end = () => {
    clearTimeout(holding)
    stop()
  }
  target.addEventListener('pointerenter', ({ pointerType }) => {
    // A person who asked for less motion starts it with a button, in the viewer.
    if (pointerType === 'mouse' && !matchMedia('(prefers-reduced-motion: reduce)').matches) start()
  })
  target.addEventListener('pointerdown', ({ pointerType }) => {
    target.dataset.held = ''
    if (pointerType === 'mouse') return
    holding = setTimeout(() => {
      target.dataset.held = 'yes'
      start()
    }, HOLD_MS)
  })
  for (const type of ['pointerleave', 'pointerup', 'pointercancel']) target.addEventListener(type, end)
  target.addEventListener('contextmenu', (event) => {
    // A finger that rests opens a menu on phones, and would end the motion.
    if (target.dataset.held === 'yes') event.preventDefault()
  })
  // The click that ends a hold is no click.
  target.addEventListener(
    'click',
    (event) => {
      if (target.dataset.held !== 'yes') return
      target.dataset.held = ''
      event.stopImmediatePropagation()
      event.preventDefault()
    },
    { capture: true },
  )
}
