import Hls from 'hls.js'
import { link } from '../lib/api.js'
import { html, useEffect, useRef, useState } from '../lib/html.js'
import { HLS } from './hls-settings.js'

/** The shorter side is what people know. */
const nameOf = (level) => `${Math.min(level.width, level.height)}p`

/**
 * Plays HLS in a video element. `quality` is a list of its renditions, within `label`; `say(text)` shows why it cannot be
 * played. Whatever is played has `variants.hls_master_url`.
 */
export function newPlayer({ video, quality, label, say }) {
  let hls

  /** Plays from the given second on. `refresh()` returns the item with new links, when these have expired. */
  function play(m, from, refresh) {
    stop()
    video.hidden = false
    label.hidden = false
    load(m, from, refresh)
  }

  function load(m, from, refresh) {
    hls?.destroy()
    const source = link(m.variants.hls_master_url)
    if (!Hls.isSupported()) {
      video.src = source // Safari on a phone plays HLS natively
      return
    }
    const player = new Hls({ ...HLS, startPosition: from })
    hls = player
    player.on(Hls.Events.MANIFEST_PARSED, () => {
      offerQualities()
      video.play().catch(() => {}) // a browser may require a click first
    })
    player.on(Hls.Events.LEVEL_SWITCHED, showLevel)
    player.on(Hls.Events.ERROR, (_, data) => {
      if (data.fatal) void recover(player, data, refresh)
    })
    player.loadSource(source)
    player.attachMedia(video)
  }

  /** Links end after a while: a video that was paused for long goes on with new ones, once. */
  async function recover(player, data, refresh) {
    if (data.type === Hls.ErrorTypes.MEDIA_ERROR) return player.recoverMediaError()
    const fresh = await refresh?.().catch(() => undefined)
    if (hls !== player) return
    if (fresh?.variants.hls_master_url) return load(fresh, video.currentTime)
    say(`It cannot be played right now (${data.details})`)
  }

  function stop() {
    hls?.destroy()
    hls = undefined
    video.hidden = true
    label.hidden = true
    video.removeAttribute('src')
    video.load()
    quality.replaceChildren()
  }

  function offerQualities() {
    const options = hls.levels.map((level, i) => new Option(nameOf(level), i)).reverse()
    quality.replaceChildren(new Option('Auto', -1), ...options)
  }

  function showLevel() {
    const level = hls.levels[hls.currentLevel]
    quality.options[0].text = hls.autoLevelEnabled && level ? `Auto (${nameOf(level)})` : 'Auto'
  }

  quality.addEventListener('change', () => {
    hls.currentLevel = Number(quality.value)
    showLevel()
  })

  return { play, stop, seconds: () => video.currentTime }
}

/**
 * The same as a component: fills its frame, with a list of the renditions in a corner. Begins anew, where it was, when
 * `version` changes: more renditions may exist. `onProblem(text)` is told why it cannot be played. Key it by what is played.
 */
export function Player({ m, version, refresh, onProblem, id = 'video', children }) {
  const video = useRef()
  const second = useRef(0)
  const hls = useRef()
  const [levels, setLevels] = useState([])
  const [chosen, setChosen] = useState(-1)
  const [automatic, setAutomatic] = useState()
  useEffect(() => {
    const element = video.current
    let isGone = false
    function load(item, from, isRetry) {
      hls.current?.destroy()
      const source = link(item.variants.hls_master_url)
      if (!Hls.isSupported()) return void (element.src = source) // Safari on a phone plays HLS natively
      const player = new Hls({ ...HLS, startPosition: from })
      hls.current = player
      player.on(Hls.Events.MANIFEST_PARSED, () => {
        setLevels(player.levels.map(nameOf))
        setChosen(-1)
        element.play().catch(() => {}) // a browser may require a click first
      })
      player.on(Hls.Events.LEVEL_SWITCHED, () => setAutomatic(player.autoLevelEnabled ? player.currentLevel : undefined))
      player.on(Hls.Events.ERROR, (_, data) => data.fatal && void recover(player, data, isRetry))
      player.loadSource(source)
      player.attachMedia(element)
    }
    /** Links end after a while: a video that was paused for long goes on with new ones, once. */
    async function recover(player, { type, details }, isRetry) {
      if (type === Hls.ErrorTypes.MEDIA_ERROR) return player.recoverMediaError()
      const fresh = isRetry ? undefined : await Promise.resolve(refresh?.()).catch(() => undefined)
      if (isGone || hls.current !== player) return
      if (fresh?.variants.hls_master_url) load(fresh, element.currentTime, true)
      else onProblem?.(`It cannot be played right now (${details})`)
    }
    load(m, second.current)
    return () => {
      isGone = true
      second.current = element.currentTime
      hls.current?.destroy()
      element.removeAttribute('src')
      element.load()
    }
  }, [version])
  const choose = (event) => {
    setChosen(Number(event.target.value))
    hls.current.currentLevel = Number(event.target.value)
  }
  const auto = levels[automatic] ? `Auto (${levels[automatic]})` : 'Auto'
  return html`
    <video id=${id} ref=${video} controls playsinline></video>
    ${children}
    ${
      levels.length > 0 &&
      html`
        <label class="quality"><span>Quality</span>
          <select value=${chosen} onChange=${choose}>
            ${[[-1, auto], ...levels.map((name, i) => [i, name]).reverse()].map(([value, text]) => html`<option key=${value} value=${value} selected=${value === chosen}>${text}</option>`)}
          </select>
        </label>`
    }`
}
