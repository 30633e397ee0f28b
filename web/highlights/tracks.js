import { call, link } from '../lib/api.js'
import { html, useEffect, useRef, useState } from '../lib/html.js'
import { Problem } from '../lib/parts.js'
import { usePolled } from '../lib/poll.js'
import { clock } from '../lib/words.js'

/** What has to be shown wherever a track can be heard. */
export const creditOf = ({ attribution, license }) => `${attribution}, ${license}`

/** The music that is offered: `{data, error}`, where `data` are the tracks. */
export const useTracks = () => usePolled(async () => (await call('GET', '/api/music-tracks')).tracks, [], 0)

/**
 * A list of music tracks to choose one of, each of which can be heard, one at a time. `chosen` is the id of one, or null;
 * one that is not offered any more counts as null. `onChoose(id)` gets another one.
 */
export function Tracks({ chosen, onChoose }) {
  const tracks = useTracks()
  const player = useRef()
  const [playing, setPlaying] = useState()
  const heard = useRef()
  const [problem, setProblem] = useState()
  useEffect(() => {
    if (chosen && tracks.data && !tracks.data.some((track) => track.music_track_id === chosen)) onChoose(null)
  }, [tracks.data])
  function hear({ music_track_id: id, preview_url: url }) {
    const audio = player.current
    if (playing === id) return audio.pause()
    if (heard.current !== id) audio.src = link(url)
    heard.current = id
    setProblem()
    audio.play().catch(() => setPlaying())
  }
  const stopped = () => setPlaying()
  function failed() {
    heard.current = undefined // the next try loads it anew
    setPlaying()
    setProblem('This music cannot be heard right now.')
  }
  const choice = (id, title, about, button) => html`
    <li key=${id} class="track" data-track=${id}>
      <label>
        <input type="radio" name="music_track_id" checked=${chosen === id} onChange=${() => onChoose(id)} />
        <span class="track-words"><strong class="name" dir="auto">${title}</strong><span class="muted small about" dir="auto">${about}</span></span>
      </label>
      ${button}
    </li>`
  const buttonOf = (track) => {
    const isPlaying = playing === track.music_track_id
    return html`
      <button class="icon-button" type="button" aria-label=${`${isPlaying ? 'Pause' : 'Play'} ${track.title}`} onClick=${() => hear(track)}>
        <svg aria-hidden="true" viewBox="0 0 20 20" width="20" height="20"><path d=${isPlaying ? 'M7 4.5v11M13 4.5v11' : 'M7 4.5v11l9-5.5z'} /></svg>
      </button>`
  }
  return html`
    <fieldset class="tracks">
      <legend>Music</legend>
      <ul class="track-list">
        ${choice(null, 'None', 'Only the sound of the videos')}
        ${tracks.data?.map((track) => choice(track.music_track_id, track.title, `${clock(track.duration_sec)} · ${creditOf(track)}`, buttonOf(track)))}
      </ul>
      ${tracks.data?.length === 0 && html`<p class="muted small">There is no music yet. The administrators of this installation add it with the command <code>track add</code>: its runbook describes that under “Music for highlights”.</p>`}
      <${Problem} class="small" text=${problem} error=${tracks.error} />
      <audio ref=${player} preload="none" onPlay=${() => setPlaying(heard.current)} onPause=${stopped} onEnded=${stopped} onError=${failed}></audio>
    </fieldset>`
}
