import { call, isSignedIn, link, Refusal, signIn, signOut, whoAmI } from './client.js'
import { openPlayer, playingNow, refreshPlayer } from './player.js'
import { posterFor } from './poster.js'
import { uploadOf } from './upload.js'
import { day, hue, plural, seconds, size } from './words.js'

const $ = (id) => document.getElementById(id)
const items = new Map()
const tiles = new Map()
const FAILURES = {
  UNSUPPORTED_CODEC: 'This kind of video cannot be converted.',
  CORRUPT_INPUT: 'The file is damaged.',
  LIMIT_EXCEEDED: 'The video is too long or too large.',
  TIMEOUT: 'The conversion took too long.',
  INTERNAL: 'Something went wrong on our side.',
}
let directory = { accounts: [], organizations: [] }
let organization
let cursor
let timer

const announce = (text) => {
  $('announcer').textContent = text
}

function showProblem(error) {
  $('problem').textContent = error ? error.message : ''
  $('problem').hidden = !error
}

// ── Sign in ──────────────────────────────────────────────────────────────────────────────────────────────────────

const hash = new URLSearchParams(location.hash.slice(1))
if (hash.has('key')) {
  sessionStorage.setItem('keepsake.key', hash.get('key'))
  history.replaceState(null, '', location.pathname) // the key is a credential: out of sight, out of the history
}

async function loadDirectory() {
  const key = sessionStorage.getItem('keepsake.key') ?? ''
  const response = await fetch('/directory', { headers: { 'X-Page-Key': key } })
  if (response.ok) directory = await response.json()
  $('accounts').hidden = directory.accounts.length === 0
  $('accounts-hint').hidden = directory.accounts.length > 0
  $('account-list').replaceChildren(...directory.accounts.map(accountButton))
  if (directory.accounts[0]) choose(directory.accounts[0])
}

function avatar(name) {
  const initial = Object.assign(document.createElement('span'), { className: 'avatar', textContent: name[0] })
  initial.style.setProperty('--hue', hue(name))
  initial.ariaHidden = 'true'
  return initial
}

function accountButton(account) {
  const button = Object.assign(document.createElement('button'), { type: 'button', className: 'account' })
  const text = document.createElement('span')
  const name = Object.assign(document.createElement('strong'), { textContent: account.name })
  text.append(name, Object.assign(document.createElement('span'), { className: 'muted small', textContent: account.label }))
  button.append(avatar(account.name), text)
  button.dataset.email = account.email
  button.addEventListener('click', () => choose(account))
  return button
}

function choose(account) {
  $('email').value = account.email
  $('password').value = account.password
  for (const b of $('account-list').children) b.ariaPressed = String(b.dataset.email === account.email)
}

async function enter(email, password) {
  const button = $('sign-in-form').querySelector('[type=submit]')
  button.disabled = true
  $('sign-in-error').hidden = true
  try {
    await signIn(email, password)
    await showLibrary()
  } catch (error) {
    const wrong = error.status === 401 || error.status === 400
    $('sign-in-error').textContent = wrong ? 'That e-mail and password do not belong together.' : error.message
    $('sign-in-error').hidden = false
    $('password').focus()
  } finally {
    button.disabled = false
  }
}

function showSignIn() {
  clearTimeout(timer)
  for (const dialog of document.querySelectorAll('dialog[open]')) dialog.close()
  $('library').hidden = true
  $('sign-in').hidden = false
  $('email').focus()
}

// ── Library ──────────────────────────────────────────────────────────────────────────────────────────────────────

async function showLibrary() {
  const me = whoAmI()
  $('sign-in').hidden = true
  $('library').hidden = false
  $('who').textContent = me.name ?? me.email ?? ''
  const mine = await myOrganizations(me.email)
  $('organization').replaceChildren(...mine.map((o) => new Option(o.name, o.org_id)))
  if (mine.length === 0) return showProblem(new Error('You are not a member of any group yet.'))
  await switchTo(mine[0])
}

/** There is no endpoint yet that lists them: try those of this machine, and keep what answers. */
async function myOrganizations() {
  const tried = await Promise.all(
    directory.organizations.map((o) =>
      call('GET', `/api/media/${o.org_id}?limit=1`).then(
        () => o,
        () => undefined,
      ),
    ),
  )
  return tried.filter(Boolean)
}

async function switchTo(chosen) {
  organization = chosen
  items.clear()
  tiles.clear()
  $('grid').replaceChildren()
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

/** Shows the newest page, and comes back: soon while something is being converted, later otherwise. */
async function look() {
  clearTimeout(timer)
  const asked = organization
  try {
    const newest = await page()
    if (asked !== organization) return
    // Pages that were loaded further down stay; their cursor stays the one to go on with.
    if (cursor === undefined) showMore(newest)
    const fresh = newest.media.map((m) => m.media_id)
    for (const m of newest.media) items.set(m.media_id, { ...m, org_id: asked.org_id })
    await refreshOld(fresh)
    showProblem()
    render()
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) return showSignIn()
    showProblem(error)
  }
  const busy = [...items.values()].some((m) => m.upload_status === 'processing')
  timer = setTimeout(look, document.hidden ? 15_000 : busy ? 1000 : 8000)
}

/** What is still being converted may lie on a page further down. */
async function refreshOld(fresh) {
  const old = [...items.values()].filter((m) => m.upload_status === 'processing' && !fresh.includes(m.media_id))
  for (const m of old) {
    const now = await call('GET', `/api/media/${m.org_id}/${m.media_id}`)
    items.set(m.media_id, { ...m, ...now })
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
  const parts = [`${percent} %`, speed && `${Number.parseFloat(speed)}×`, eta && `${seconds(eta)} left`]
  return (playable ? 'Playable · ' : '') + parts.filter(Boolean).join(' · ')
}

async function explain(tile, m) {
  const meta = await call('GET', `/api/media/${m.org_id}/${m.media_id}/metadata`).catch(() => undefined)
  const { code, message } = meta?.conversion?.error ?? {}
  tile.dataset.reason = FAILURES[code] ?? message ?? 'Could not be converted'
  tile.querySelector('.state').textContent = tile.dataset.reason
}

// ── Upload ───────────────────────────────────────────────────────────────────────────────────────────────────────

function add(files) {
  for (const file of files) start(file, organization.org_id)
}

function start(file, org) {
  const row = $('upload').content.firstElementChild.cloneNode(true)
  const [bar, text, retry, cancel] = ['progress', '.text', '.retry', '.cancel'].map((s) => row.querySelector(s))
  row.querySelector('.name').textContent = file.name
  bar.ariaLabel = `Upload of ${file.name}`
  $('uploads').append(row)
  let began
  let told = 0

  const upload = uploadOf(org, file, (sent) => {
    const percent = Math.floor((sent / file.size) * 100)
    const rate = sent / ((performance.now() - began) / 1000)
    bar.value = percent
    text.textContent = `${size(sent)} of ${size(file.size)} · ${percent} % · ${size(rate)}/s`
    if (percent >= told + 25) announce(`${file.name}: ${percent} percent uploaded`)
    told = Math.max(told, Math.floor(percent / 25) * 25)
  })

  async function run() {
    began = performance.now()
    row.classList.remove('failed')
    retry.hidden = true
    text.textContent = 'Starting'
    try {
      await upload.run()
      row.remove()
      announce(`${file.name} is uploaded and is being converted`)
      await look()
    } catch (error) {
      if (error.name === 'AbortError') return
      row.classList.add('failed')
      text.textContent = error.message
      retry.hidden = false
      announce(`The upload of ${file.name} stopped: ${error.message}`)
    }
  }
  retry.addEventListener('click', run)
  cancel.addEventListener('click', () => {
    row.remove()
    void upload.cancel()
  })
  void run()
}

$('file').addEventListener('change', () => {
  add($('file').files)
  $('file').value = ''
})
let depth = 0
const dragging = (event) => !$('library').hidden && event.dataTransfer?.types.includes('Files')
addEventListener('dragenter', (event) => {
  if (dragging(event)) $('drop').hidden = ++depth < 1
})
addEventListener('dragleave', (event) => {
  if (dragging(event)) $('drop').hidden = --depth < 1
})
addEventListener('dragover', (event) => event.preventDefault())
addEventListener('drop', (event) => {
  event.preventDefault()
  depth = 0
  $('drop').hidden = true
  if (dragging(event)) add(event.dataTransfer.files)
})

// ── Start ────────────────────────────────────────────────────────────────────────────────────────────────────────

$('sign-in-form').addEventListener('submit', (event) => {
  event.preventDefault()
  void enter($('email').value, $('password').value)
})
$('sign-out').addEventListener('click', async () => {
  await signOut()
  showSignIn()
})
$('organization').addEventListener('change', () => {
  void switchTo(directory.organizations.find((o) => o.org_id === $('organization').value))
})
$('more').addEventListener('click', async () => {
  const list = await page(cursor).catch(showProblem)
  if (!list) return
  for (const m of list.media) items.set(m.media_id, { ...m, org_id: organization.org_id })
  showMore(list)
  render()
})
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && isSignedIn() && organization) void look()
})

await loadDirectory()
const wanted = directory.accounts.find((a) => a.label.toLowerCase().startsWith(hash.get('account') ?? '-'))
if (isSignedIn()) await showLibrary().catch(showSignIn)
else if (wanted) await enter(wanted.email, wanted.password)
else showSignIn()
if (hash.has('media') && items.get(hash.get('media'))?.variants?.hls_master_url) openPlayer(items.get(hash.get('media')))
