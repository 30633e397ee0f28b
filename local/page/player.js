import Hls from '/hls.js'
import { call, link } from './client.js'
import { HLS } from './poster.js'
import { clock, size } from './words.js'

const $ = (id) => document.getElementById(id)
const [dialog, video, note, quality] = [$('player'), $('video'), $('player-note'), $('quality')]
let hls
let playing

export const playingNow = () => playing

export function openPlayer(item) {
  playing = item
  $('player-title').textContent = item.original_filename ?? item.media_id
  $('player-details').textContent = size(item.file_size_bytes)
  $('player-download').href = link(item.original_url)
  say(item)
  dialog.showModal()
  load(item, 0)
  void details(item)
}

/** Called with every update of the item that is playing: more renditions may exist than at its start. */
export function refreshPlayer(item) {
  const finished = playing.upload_status === 'processing' && item.upload_status === 'completed'
  playing = item
  say(item)
  if (!finished) return
  load(item, video.currentTime)
  void details(item)
}

function say(item) {
  const early = item.upload_status === 'processing'
  note.hidden = !early
  if (early) note.textContent = 'Playing early: better quality follows when it is converted'
}

function load(item, from) {
  hls?.destroy()
  const source = link(item.variants.hls_master_url)
  if (!Hls.isSupported()) {
    video.src = source // Safari on a phone plays HLS natively
    return
  }
  hls = new Hls({ ...HLS, startPosition: from })
  hls.on(Hls.Events.MANIFEST_PARSED, () => {
    offerQualities()
    video.play().catch(() => {}) // a browser may require a click first
  })
  hls.on(Hls.Events.LEVEL_SWITCHED, showLevel)
  hls.on(Hls.Events.ERROR, (_, data) => {
    if (!data.fatal) return
    if (data.type === Hls.ErrorTypes.MEDIA_ERROR) return hls.recoverMediaError()
    note.hidden = false
    note.textContent = `It cannot be played right now (${data.details})`
  })
  hls.loadSource(source)
  hls.attachMedia(video)
}

const nameOf = (level) => `${Math.min(level.width, level.height)}p`

function offerQualities() {
  const options = hls.levels.map((level, i) => new Option(nameOf(level), i)).reverse()
  quality.replaceChildren(new Option('Auto', -1), ...options)
}

function showLevel() {
  const level = hls.levels[hls.currentLevel]
  quality.options[0].text = hls.autoLevelEnabled && level ? `Auto (${nameOf(level)})` : 'Auto'
}

async function details(item) {
  const meta = await call('GET', `/api/media/${item.org_id}/${item.media_id}/metadata`).catch(() => undefined)
  if (!meta || playing?.media_id !== item.media_id) return
  const parts = [
    meta.duration_sec && clock(meta.duration_sec),
    meta.width && `${meta.width} × ${meta.height}`,
    size(item.file_size_bytes),
    meta.conversion?.renditions?.map((r) => r.name ?? r).join(', '),
  ]
  $('player-details').textContent = parts.filter(Boolean).join(' · ')
}

quality.addEventListener('change', () => {
  hls.currentLevel = Number(quality.value)
  showLevel()
})
$('player-close').addEventListener('click', () => dialog.close())
dialog.addEventListener('click', (event) => {
  if (event.target === dialog) dialog.close()
})
dialog.addEventListener('close', () => {
  hls?.destroy()
  hls = undefined
  playing = undefined
  video.removeAttribute('src')
  video.load()
  quality.replaceChildren()
})
