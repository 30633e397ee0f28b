import { call, link, Refusal, whoAmI } from './client.js'
import { $, announce, showProblem } from './dom.js'
import { openPlayer, playingNow, refreshPlayer } from './player.js'
import { posterFor } from './poster.js'
import { day, hue, plural, seconds, size } from './words.js'

const FAILURES = {
  UNSUPPORTED_CODEC: 'This kind of video cannot be converted.',
  CORRUPT_INPUT: 'The file is damaged.',
  LIMIT_EXCEEDED: 'The video is too long or too large.',
  TIMEOUT: 'The conversion took too long.',
  INTERNAL: 'Something went wrong on our side.',
}
const items = new Map()
const tiles = new Map()
let organizations = []
let organization
let cursor
let timer
let onSignedOut = () => {}

export const currentOrganization = () => organization

/** Shows the user's groups, out of those of this machine. */
export async function openLibrary(directory, signedOut) {
  onSignedOut = signedOut
  const me = whoAmI()
  $('sign-in').hidden = true
  $('library').hidden = false
  $('who').textContent = me.name ?? me.email ?? ''
  organizations = await mine(directory, me.email)
  $('organization').replaceChildren(...organizations.map((o) => new Option(o.name, o.org_id)))
  if (organizations[0]) await switchTo(organizations[0])
  else showProblem(new Error('You are not a member of any group yet.'))
}

export function closeLibrary() {
  clearTimeout(timer)
  organization = undefined
  clear()
  $('library').hidden = true
}

/** Plays a media item if it exists and can be played. */
export function play(mediaId) {
  const item = items.get(mediaId)
  if (item?.variants?.hls_master_url) openPlayer(item)
}

/** The API does not list a user's groups yet: take them from the link, otherwise try all and keep those that answer. */
async function mine({ organizations: known, accounts }, email) {
  const account = accounts.find((a) => a.email === email)
  if (account) return known.filter((o) => account.organizations.includes(o.org_id))
  const answers = await Promise.allSettled(known.map((o) => call('GET', `/api/media/${o.org_id}?limit=1`)))
  return known.filter((_, i) => answers[i].status === 'fulfilled')
}

function clear() {
  items.clear()
  tiles.clear()
  $('grid').replaceChildren()
}

async function switchTo(chosen) {
  organization = chosen
  clear()
  $('organization').value = chosen.org_id
  $('organization-name').textContent = chosen.name
  $('drop-name').textContent = chosen.name
  cursor = undefined
  await look()
}

async function page(after) {
  const query = new URLSearchParams({ limit: '24', ...(after && { cursor: after }) })
  return call('GET', `/api/media/${organization.org_id}?${query}`)
}

/** Shows the newest page, and schedules the next look: soon during a conversion, later otherwise. */
export async function look() {
  clearTimeout(timer)
  const asked = organization
  if (!asked) return
  try {
    const newest = await page()
    if (asked !== organization) return
    // Older pages that were loaded stay, and so does their cursor.
    if (cursor === undefined) showMore(newest)
    const fresh = newest.media.map((m) => m.media_id)
    for (const m of newest.media) items.set(m.media_id, m)
    await refreshOld(fresh)
    showProblem()
    render()
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) return onSignedOut()
    showProblem(error)
  }
  const busy = [...items.values()].some((m) => m.upload_status === 'processing')
  timer = setTimeout(look, document.hidden ? 15_000 : busy ? 1000 : 8000)
}

/** An item that is still being converted may be on an older page. */
async function refreshOld(fresh) {
  const old = [...items.values()].filter((m) => m.upload_status === 'processing' && !fresh.includes(m.media_id))
  for (const m of old) {
    items.set(m.media_id, await call('GET', `/api/media/${m.org_id}/${m.media_id}`))
  }
}

function showMore(list) {
  cursor = list.has_more ? list.next_cursor : null
  $('more').hidden = !list.has_more
}

function render() {
  const all = [...items.values()].sort((a, b) => b.created_at.localeCompare(a.created_at))
  for (const [i, m] of all.entries()) {
    const tile = tiles.get(m.media_id) ?? newTile(m)
    update(tile, m)
    if ($('grid').children[i] !== tile) $('grid').insertBefore(tile, $('grid').children[i] ?? null)
  }
  const busy = all.filter((m) => m.upload_status === 'processing').length
  $('empty').hidden = all.length > 0
  $('summary').textContent =
    all.length === 0 ? '' : plural(all.length, 'memory', 'memories') + (busy ? `, ${busy} being converted` : '')
  const playing = playingNow()
  if (playing && items.has(playing.media_id)) refreshPlayer(items.get(playing.media_id))
}

function newTile(m) {
  const tile = $('tile').content.firstElementChild.cloneNode(true)
  tile.dataset.media = m.media_id
  const name = m.original_filename ?? m.media_id
  tile.querySelector('.name').textContent = name
  tile.querySelector('.name').title = name
  tile.querySelector('.facts').textContent = `${day(m.created_at)} · ${size(m.file_size_bytes)}`
  tile.querySelector('.download').ariaLabel = `Download the original of ${name}`
  const frame = tile.querySelector('.frame')
  frame.style.setProperty('--hue', hue(m.media_id))
  frame.addEventListener('click', () => openPlayer(items.get(m.media_id)))
  tiles.set(m.media_id, tile)
  return tile
}

function update(tile, m) {
  const name = m.original_filename ?? m.media_id
  const playable = Boolean(m.variants?.hls_master_url)
  const before = tile.dataset.state
  const state = m.upload_status === 'processing' && playable ? 'playable' : m.upload_status
  const percent = Math.round(m.conversion_progress?.percent ?? 0)
  tile.dataset.state = state
  tile.classList.toggle('working', m.upload_status === 'processing')
  tile.classList.toggle('playable', playable)
  tile.classList.toggle('failed', m.upload_status === 'failed')
  tile.querySelector('.meter span').style.width = `${percent}%`
  tile.querySelector('.state').textContent = describe(m, playable, percent)
  tile.querySelector('.download').href = link(m.original_url)
  const frame = tile.querySelector('.frame')
  frame.disabled = !playable
  frame.ariaLabel = playable ? `Play ${name}` : `${name}: ${describe(m, playable, percent)}`
  if (m.upload_status === 'failed' && before !== 'failed') void explain(tile, m)
  if (playable && !tile.dataset.poster) {
    tile.dataset.poster = 'asked'
    posterFor(tile.querySelector('.poster'), m.variants.hls_master_url)
  }
  if (before && before !== state) {
    announce({ playable: `${name} can be played`, completed: `${name} is ready`, failed: `${name} failed` }[state] ?? '')
  }
}

function describe(m, playable, percent) {
  if (m.upload_status === 'failed') return tiles.get(m.media_id)?.dataset.reason ?? 'Could not be converted'
  if (m.upload_status === 'completed') return playable ? '' : 'Ready'
  const { speed, eta_sec: eta } = m.conversion_progress ?? {}
  if (!m.conversion_progress) return 'Waiting to be converted'
  const parts = [percent === 0 && 'Preparing', `${percent} %`, speed && `${Number.parseFloat(speed)}×`, eta && `${seconds(eta)} left`]
  return (playable ? 'Playable · ' : '') + parts.filter(Boolean).join(' · ')
}

async function explain(tile, m) {
  const meta = await call('GET', `/api/media/${m.org_id}/${m.media_id}/metadata`).catch(() => undefined)
  const { code, message } = meta?.conversion?.error ?? {}
  tile.dataset.reason = FAILURES[code] ?? message ?? 'Could not be converted'
  tile.querySelector('.state').textContent = tile.dataset.reason
}

$('organization').addEventListener('change', () => {
  void switchTo(organizations.find((o) => o.org_id === $('organization').value))
})
$('more').addEventListener('click', async () => {
  const asked = organization
  const list = await page(cursor).catch(showProblem)
  if (!list || asked !== organization) return
  for (const m of list.media) items.set(m.media_id, m)
  showMore(list)
  render()
})
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) void look()
})
