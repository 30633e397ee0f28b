import { call, link } from './client.js'
import { arrange, copyOf } from './dom.js'
import { clock } from './words.js'

const NONE = 'none'

/**
 * A list of music tracks to choose one of, each of which can be heard: title, length, license and attribution. `player` is
 * an audio element; one track plays at a time.
 */
export function newTrackList(list, player) {
  let tracks = []
  /** The track whose preview plays or is loaded. */
  let heard

  /** Asks for the tracks, and chooses one of them, or none. Throws Refusal. */
  async function load(chosen) {
    arrange(list, [noneElement(!chosen)])
    tracks = (await call('GET', '/api/music-tracks')).tracks
    arrange(list, [noneElement(!tracks.some(({ music_track_id: id }) => id === chosen)), ...tracks.map((track) => trackElement(track, chosen))])
  }

  function noneElement(isChosen) {
    const item = copyOf('track')
    item.querySelector('input').value = NONE
    item.querySelector('input').checked = isChosen
    item.querySelector('.name').textContent = 'None'
    item.querySelector('.about').textContent = 'Only the sound of the videos'
    item.querySelector('.hear').remove()
    return item
  }

  function trackElement(track, chosen) {
    const { music_track_id: id, title, duration_sec: seconds } = track
    const item = copyOf('track')
    item.dataset.track = id
    item.querySelector('input').value = id
    item.querySelector('input').checked = id === chosen
    item.querySelector('.name').textContent = title
    item.querySelector('.about').textContent = [clock(seconds), creditOf(track)].join(' · ')
    const button = item.querySelector('.hear')
    button.ariaLabel = `Play ${title}`
    button.addEventListener('click', () => hear(track))
    return item
  }

  function hear({ music_track_id: id, preview_url: url }) {
    if (heard === id && !player.paused) return player.pause()
    if (heard !== id) player.src = link(url)
    heard = id
    player.play().catch(mark)
  }

  function stop() {
    heard = undefined
    player.pause()
    player.removeAttribute('src')
    player.load()
  }

  function mark() {
    for (const item of list.children) {
      const button = item.querySelector('.hear')
      if (!button) continue
      const isPlaying = item.dataset.track === heard && !player.paused && !player.ended
      button.ariaPressed = String(isPlaying)
      button.ariaLabel = `${isPlaying ? 'Pause' : 'Play'} ${item.querySelector('.name').textContent}`
    }
  }
  for (const event of ['play', 'pause', 'ended', 'error']) player.addEventListener(event, mark)

  return {
    load,
    stop,
    /** The id of the chosen track; null for none. */
    chosen() {
      const value = list.querySelector('input:checked')?.value
      return value && value !== NONE ? value : null
    },
  }
}

/** What has to be shown wherever a track can be heard. */
export const creditOf = ({ attribution, license }) => `${attribution}, ${license}`
