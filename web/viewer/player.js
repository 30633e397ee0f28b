import Hls from 'hls.js'
import { link } from '../lib/api.js'
import { html, useEffect, useRef, useState } from '../lib/html.js'
import { HLS } from './hls-settings.js'
import { newLinks } from './new-links.js'

/** The shorter side is what people know. */
const nameOf = (level) => `${Math.min(level.width, level.height)}p`

/**
 * Plays HLS, with a list of its renditions in a corner. `m` has `variants.hls_master_url`; `refresh()` returns it with new
 * links. Begins anew where it was, paused or not, in the chosen rendition, when `version` changes: more may exist. `onProblem(text)` is
 * told why it cannot be played. Key it by what is played.
 */
export function Player({ m, version, refresh, onProblem, id = 'video', children }) {
  const video = useRef()
  const before = useRef({ second: 0, isPaused: false, quality: undefined })
  const hls = useRef()
  const [levels, setLevels] = useState([])
  const [chosen, setChosen] = useState(-1)
  const [automatic, setAutomatic] = useState()
  useEffect(() => {
    const element = video.current
    const links = newLinks(refresh)
    let isGone = false
    function load(item, from) {
      hls.current?.destroy()
      const source = link(item.variants.hls_master_url)
      if (!Hls.isSupported()) return loadNatively(source, from)
      const player = new Hls({ ...HLS, startPosition: from })
      hls.current = player
      player.on(Hls.Events.MANIFEST_PARSED, () => {
        const names = player.levels.map(nameOf)
        const at = names.indexOf(before.current.quality)
        setLevels(names)
        setChosen(at)
        if (at >= 0) {
          player.startLevel = at
          player.loadLevel = at
        }
        if (!before.current.isPaused) element.play().catch(() => {}) // a browser may require a click first
      })
      player.on(Hls.Events.LEVEL_SWITCHED, () =>
        setAutomatic(player.autoLevelEnabled ? player.currentLevel : undefined),
      )
      player.on(Hls.Events.ERROR, (_, data) => data.fatal && void recover(player, data))
      player.loadSource(source)
      player.attachMedia(element)
    }
    /** Safari on a phone plays HLS itself. */
    function loadNatively(source, from, isPlaying = false) {
      element.src = source
      element.onloadedmetadata = () => {
        if (from > 0) element.currentTime = from
        if (isPlaying) element.play().catch(() => {})
      }
      element.onerror = async () => {
        const [at, wasPlaying] = [element.currentTime || from, !element.paused]
        const fresh = await links.ask()
        if (isGone) return
        if (fresh?.variants.hls_master_url) loadNatively(link(fresh.variants.hls_master_url), at, wasPlaying)
        else onProblem?.('It cannot be played right now')
      }
    }
    /** Links end after a while: a video that is long, or was paused for long, goes on with new ones. */
    async function recover(player, { type, details }) {
      if (type === Hls.ErrorTypes.MEDIA_ERROR) return player.recoverMediaError()
      const fresh = await links.ask()
      if (isGone || hls.current !== player) return
      if (fresh?.variants.hls_master_url) load(fresh, element.currentTime)
      else onProblem?.(`It cannot be played right now (${details})`)
    }
    load(m, before.current.second)
    return () => {
      isGone = true
      element.onerror = null
      element.onloadedmetadata = null
      // What has not begun to play yet was not paused by a person.
      const isPaused = element.played.length > 0 ? element.paused && !element.ended : before.current.isPaused
      before.current = { ...before.current, second: element.currentTime, isPaused }
      hls.current?.destroy()
      element.removeAttribute('src')
      element.load()
    }
  }, [version])
  const choose = (event) => {
    const at = Number(event.target.value)
    setChosen(at)
    before.current.quality = levels[at]
    const player = hls.current
    if (video.current.buffered.length > 0) player.currentLevel = at
    else {
      // hls.js may load nothing more after a switch that drops the very first segment: it begins anew.
      player.stopLoad()
      player.startLevel = at
      player.loadLevel = at
      player.startLoad(video.current.currentTime || before.current.second)
    }
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
