import { call } from './client.js'
import { ask, sayIn } from './dialogs.js'
import { $, announce, copyOf, toast } from './dom.js'
import { findInGroups } from './lib/find-in-groups.js'
import { makeHighlight } from './highlight-form.js'
import { showPicture } from './highlight-order.js'
import * as words from './highlight-words.js'
import { nameOf } from './item.js'
import { may } from './lib/permissions.js'
import { mediaOf } from './media-cache.js'
import { creditOf } from './music-tracks.js'
import { newPlayer } from './player.js'
import { inWords } from './refusal-words.js'
import { linkToAlbum, linkToHighlight } from './views.js'
import { clock, hue, seconds } from './words.js'

const BUSY_MS = 1500
const LOOK_MS = 30_000
const HIDDEN_MS = 60_000

const stage = $('highlight-stage')
const player = newPlayer({
  video: $('film'),
  quality: $('film-quality'),
  label: $('film-quality-label'),
  say: (text) => sayIn('film-note', text),
})
/** What is shown: the highlight, its group, its album if it has one that the person sees, and its media items by id. */
let at
let timer
let asked = 0

/** Shows a highlight. */
export async function openHighlight(id, { me, organizations, first, onFound }) {
  const mine = ++asked
  $('highlight-shown').hidden = true
  $('highlight-gone').hidden = true
  try {
    const pathIn = (org) => `/api/media/${org.org_id}/highlights/${encodeURIComponent(id)}`
    const there = await findInGroups(pathIn, { organizations, first })
    if (mine !== asked) return
    if (!there) return showGone('This highlight does not exist, or it is not for you to see.')
    const { found: highlight, org, path } = there
    onFound(org)
    at = { highlight, org, path, me, media: new Map() }
    $('highlight-items').replaceChildren(...highlight.media_ids.map(itemElement))
    render()
    void loadAround(at)
    lookLater()
  } catch (error) {
    if (mine === asked) showGone(inWords(error))
  }
}

export function closeHighlight() {
  asked++
  clearTimeout(timer)
  if (at) player.stop()
  at = undefined
}

function showGone(text) {
  player.stop()
  clearTimeout(timer)
  $('highlight-gone-text').textContent = text
  $('highlight-gone').hidden = false
  $('highlight-shown').hidden = true
}

function lookLater() {
  clearTimeout(timer)
  const isBusy = at.highlight.status === 'processing'
  timer = setTimeout(look, document.hidden ? HIDDEN_MS : isBusy ? BUSY_MS : LOOK_MS)
}

/** Asks for the present state, and again after a while. */
async function look() {
  clearTimeout(timer)
  const mine = at
  if (!mine) return
  try {
    const highlight = await call('GET', mine.path)
    if (mine !== at) return
    const before = mine.highlight.status
    mine.highlight = highlight
    render()
    if (before !== highlight.status) announce(`${highlight.title}: ${words.statusOf(highlight)}`)
  } catch (error) {
    if (mine !== at) return
    if (error.status === 404) return showGone(inWords(error))
    if (error.status !== 429) toast(inWords(error))
  }
  lookLater()
}

/** What the highlight names: its album, its music and its media items. It can be shown and played without them. */
async function loadAround(mine) {
  const { highlight, org } = mine
  const none = () => undefined
  const album = highlight.album_id && call('GET', `/api/orgs/${org.org_id}/albums/${highlight.album_id}`).catch(none)
  const music = highlight.music_track_id && call('GET', '/api/music-tracks').catch(none)
  const media = highlight.media_ids.map(async (id) => {
    const m = await mediaOf(org, id)
    if (!m || mine !== at) return
    mine.media.set(id, m)
    const item = $('highlight-items').children[highlight.media_ids.indexOf(id)]
    showPicture(item, m)
    item.title = nameOf(m)
  })
  Object.assign(mine, { album: await album, tracks: (await music)?.tracks })
  if (mine === at) render()
  await Promise.all(media)
  if (mine === at) render()
}

function render() {
  const { highlight, org, album } = at
  $('highlight-shown').hidden = false
  $('highlight-shown').dataset.status = highlight.status
  document.title = `${highlight.title} · Keepsake`
  sayIn('highlight-title', highlight.title)
  sayIn('highlight-state', words.statusOf(highlight))
  const facts = [words.lengthOf(highlight), words.itemsOf(highlight), words.TRANSITIONS[highlight.transition], org.name]
  sayIn('highlight-facts', facts.join(' · '))
  $('highlight-album').hidden = !album
  if (album) Object.assign($('highlight-album'), { textContent: album.title, href: linkToAlbum(album.album_id) })
  sayIn('highlight-audience', words.audienceOf(highlight, album))
  $('highlight-delete').hidden = !may(highlight, 'highlight.delete')
  $('highlight-again').hidden = highlight.status === 'processing' || !words.mayMakeAgain(highlight, album)
  $('highlight-again').classList.toggle('primary', highlight.status === 'failed')
  renderStage()
  renderProgress()
  renderItems()
  renderMusic()
}

function renderStage() {
  const { highlight } = at
  const { hls_master_url: film } = highlight.variants
  const isFailed = highlight.status === 'failed'
  $('highlight-waiting').hidden = isFailed || Boolean(film)
  $('highlight-failure').hidden = !isFailed
  if (isFailed) {
    const { text, advice } = words.failureOf(highlight, (id) => at.media.get(id) && nameOf(at.media.get(id)))
    sayIn('highlight-failure-text', text)
    sayIn('highlight-advice', advice)
  }
  stage.style.setProperty('--hue', hue(highlight.highlight_id))
  play(film)
}

/** More renditions and the whole length are there once the film is finished: it goes on from where it is. */
function play(film) {
  const state = film ? at.highlight.status : ''
  if (at.played === state) return
  const from = at.played ? player.seconds() : 0
  const wasPaused = at.played && $('film').paused && !$('film').ended
  at.played = state
  if (!film) return player.stop()
  player.play(at.highlight, from, refresh)
  if (wasPaused) $('film').addEventListener('playing', () => $('film').pause(), { once: true })
}

/** The present state, with new links. */
async function refresh() {
  const mine = at
  mine.highlight = await call('GET', mine.path)
  return mine.highlight
}

function renderProgress() {
  const { highlight } = at
  const isBusy = highlight.status === 'processing'
  $('highlight-progress').hidden = !isBusy
  if (!isBusy) return
  const { percent = 0, eta_sec: left } = highlight.progress ?? {}
  $('highlight-step').textContent = words.progressOf(highlight).text
  const parts = [highlight.progress && `${Math.floor(percent)} %`, left && `${seconds(left)} left`]
  $('highlight-left').textContent = parts.filter(Boolean).join(' · ')
  $('highlight-percent').value = percent
}

function itemElement(id, index) {
  const item = copyOf('film-item')
  item.style.setProperty('--hue', hue(id))
  item.dataset.media = id
  item.querySelector('.place').textContent = index + 1
  item.querySelector('button').addEventListener('click', () => {
    const { start_sec: start } = at.highlight.items[index]
    if (start === null) return
    $('film').currentTime = start
    void $('film').play().catch(() => {})
  })
  return item
}

function stateAt(place, done) {
  if (place < done) return 'done'
  return place === done && at.highlight.progress ? 'now' : 'waiting'
}

/** Items that are done are lit, and the one that is being made pulses. In the finished film each leads to its place. */
function renderItems() {
  const { highlight } = at
  const isBusy = highlight.status === 'processing'
  const { done } = isBusy ? words.progressOf(highlight) : { done: highlight.items.length }
  for (const [i, element] of [...$('highlight-items').children].entries()) {
    const { start_sec: start, skipped } = highlight.items[i]
    const isBlamed = highlight.error?.media_id === highlight.media_ids[i]
    element.dataset.state = isBlamed ? 'failed' : skipped ? 'skipped' : stateAt(i, done)
    const button = element.querySelector('button')
    button.disabled = start === null
    const place = start === null ? '' : `, at ${clock(start)}`
    button.ariaLabel = `Item ${i + 1}${place}${skipped ? ', left out' : ''}`
  }
  const left = highlight.items.flatMap(({ skipped }, i) => (skipped ? [i + 1] : []))
  sayIn('highlight-skipped', left.length > 0 ? `Left out, because it could not be read: item ${left.join(', ')}.` : '')
}

function renderMusic() {
  const { highlight, tracks } = at
  $('highlight-music').hidden = !highlight.music_track_id
  const track = tracks?.find(({ music_track_id: id }) => id === highlight.music_track_id)
  $('highlight-music-text').textContent = track ? `${track.title} · ${creditOf(track)}` : 'With music'
}

/** The same items and settings, to be changed. What was deleted meanwhile, or is to blame, is left out. */
function again() {
  const { highlight, org, album, media } = at
  const items = highlight.media_ids.flatMap((id) =>
    highlight.error?.media_id === id || !media.has(id) ? [] : [media.get(id)],
  )
  makeHighlight({ org, album, items, settings: highlight, onMade: (id) => location.assign(linkToHighlight(id)) })
}

function remove() {
  const mine = at
  ask({
    title: `Delete “${mine.highlight.title}”?`,
    text: 'The film is gone for everyone, and cannot be restored. Its photos and videos stay.',
    label: 'Delete',
    async run() {
      await call('DELETE', mine.path)
      if (mine !== at) return
      // The toast belongs to the view that comes next, which hides those of the one before.
      addEventListener('hashchange', () => toast('The highlight is deleted. Its photos and videos are still there.'), { once: true })
      location.assign('/#highlights')
    },
    say: inWords,
  })
}

/** A film for phones that are held upright has more height. */
$('film').addEventListener('resize', () => {
  const { videoWidth: width, videoHeight: height } = $('film')
  stage.dataset.shape = height > width ? 'tall' : 'wide'
})
$('highlight-again').addEventListener('click', again)
$('highlight-delete').addEventListener('click', remove)
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) void look()
})
