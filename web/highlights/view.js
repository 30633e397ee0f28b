import { call } from '../lib/api.js'
import { ask } from '../lib/dialogs.js'
import { useInGroups } from '../lib/find-in-groups.js'
import { html, useEffect, useRef, useState } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { nameOf } from '../lib/media.js'
import { Problem, Wait } from '../lib/parts.js'
import { may } from '../lib/permissions.js'
import { PictureOf } from '../lib/picture.js'
import { usePolled } from '../lib/poll.js'
import { shareLink } from '../lib/share.js'
import { announce, toastNext } from '../lib/toast.js'
import { clock, hue, seconds } from '../lib/words.js'
import { linkToAlbum, linkToHighlight } from '../shell/views.js'
import { Player } from '../viewer/player.js'
import { makeHighlight } from './form.js'
import { creditOf, useTracks } from './tracks.js'
import * as words from './words.js'

const BUSY_MS = 1500
const LOOK_MS = 30_000
const pause = ({ status }) => (status === 'processing' ? BUSY_MS : LOOK_MS)

/** One highlight: it is watched while it is made, and played. */
export function HighlightView(given) {
  const at = useInGroups((org) => `/api/media/${org.org_id}/highlights/${encodeURIComponent(given.id)}`, given, pause)
  const isGone = at.error?.status === 404
  return html`
    <section class="view-highlight" aria-label="Highlight">
      <p class="back"><a class="button quiet" href="#highlights"><${Icon} name="back" size="18" />All highlights</a></p>
      ${isGone && html`<div class="empty"><h2>This highlight cannot be shown</h2><p class="muted">It does not exist any more, or it is not for you to see.</p></div>`}
      ${!isGone && html`<${Problem} class="banner" error=${at.error} />`}
      ${!at.data && !at.error && html`<${Wait} />`}
      ${at.data && !isGone && html`<${Shown} highlight=${at.data} org=${at.org} path=${at.path} reload=${at.reload} />`}
    </section>`
}

function Shown({ highlight, org, path }) {
  const { album_id: albumId, status, title, highlight_id: id } = highlight
  const around = useAlbum(org, albumId)
  const media = useMedia()
  const root = useRef()
  const album = around.data?.album
  useTitle(highlight)
  useNews(highlight)
  const nameOfId = (one) => media.found.get(one) && nameOf(media.found.get(one))
  const facts = [words.lengthOf(highlight), words.itemsOf(highlight), words.TRANSITIONS[highlight.transition], org.name]
  const audience = around.data && words.audienceOf(highlight, album)
  /** The same items and settings, to be changed. */
  function again() {
    const { kept, note } = words.itemsAgain(highlight, (one) => media.found.get(one), nameOf)
    makeHighlight({
      org,
      album,
      items: kept,
      note,
      settings: highlight,
      onMade: (made) => location.assign(linkToHighlight(made)),
    })
  }
  const play = (from) => {
    const video = root.current.querySelector('video')
    if (!video) return
    video.currentTime = from
    void video.play().catch(() => {})
  }
  return html`
    <div ref=${root} data-status=${status}>
      <header class="highlight-head">
        <div class="highlight-words">
          <p class="chips"><span class="chip badge-state">${words.statusOf(highlight)}</span></p>
          <h1 dir="auto" tabindex="-1">${title}</h1>
          <p class="muted facts"><span>${facts.join(' · ')}</span>${album && html`<a href=${linkToAlbum(albumId)} dir="auto">${album.title}</a>`}</p>
        </div>
        <div class="tools">
          <button class="button" type="button" onClick=${() => shareLink({ title, path: linkToHighlight(id), note: audience })}><${Icon} name="share" size="18" />Share</button>
          ${status !== 'processing' && around.data && words.mayMakeAgain(highlight, album) && html`<button class=${`button ${status === 'failed' ? 'primary' : ''}`} type="button" disabled=${!media.isWhole(highlight)} onClick=${again}>Make it again</button>`}
        </div>
      </header>
      <${Stage} highlight=${highlight} path=${path} nameOf=${nameOfId} />
      ${status === 'processing' && html`<${Progress} highlight=${highlight} />`}
      <${Items} org=${org} highlight=${highlight} onFound=${media.set} nameOf=${nameOfId} onPlay=${play} />
      ${highlight.music_track_id && html`<${Music} id=${highlight.music_track_id} />`}
      <p class="muted small">${audience}</p>
      ${may(highlight, 'highlight.delete') && html`<p class="last"><button class="button quiet" type="button" onClick=${() => remove(title, path)}><${Icon} name="trash" size="18" />Delete this highlight</button></p>`}
    </div>`
}

function useTitle({ title }) {
  useEffect(() => {
    document.title = `${title} · Keepsake`
  }, [title])
}

function useNews({ title, status, ...highlight }) {
  const before = useRef(status)
  useEffect(() => {
    if (before.current !== status) announce(`${title}: ${words.statusOf({ status, ...highlight })}`)
    before.current = status
  }, [status])
}

/** The album of a highlight, as `{album}`: undefined in it when there is none that the person sees. */
const useAlbum = (org, id) =>
  usePolled(
    async () => ({ album: id ? await call('GET', `/api/orgs/${org.org_id}/albums/${id}`).catch(ifHidden) : undefined }),
    [id],
    LOOK_MS,
  )

const ifHidden = (error) => {
  if (error.status !== 404) throw error
}

/** The media items of a highlight, by id, once they have been asked for; undefined for those that are gone. */
function useMedia() {
  const [found, setFound] = useState(() => new Map())
  return {
    found,
    set: (id, m) => setFound((now) => new Map(now).set(id, m)),
    isWhole: ({ media_ids: ids }) => ids.every((id) => found.has(id)),
  }
}

function Stage({ highlight, path, nameOf: name }) {
  const { highlight_id: id, status, variants } = highlight
  const [problem, setProblem] = useState()
  const [isTall, setTall] = useState(false)
  const failure = status === 'failed' && words.failureOf(highlight, name)
  const isPlayable = Boolean(variants.hls_master_url) && !failure
  // A highlight for phones that are held upright has more height.
  const measure = ({ target }) => target.videoWidth && setTall(target.videoHeight > target.videoWidth)
  return html`
    <div class="highlight-stage" data-shape=${isTall ? 'tall' : 'wide'} style=${{ '--hue': hue(id) }} onResizeCapture=${measure}>
      ${failure && html`<div class="failure" role="alert"><p>${failure.text}</p><p class="advice">${failure.advice}</p></div>`}
      ${!failure && !isPlayable && html`<p class="waiting">It can be played as soon as its first seconds are ready.</p>`}
      ${/* More renditions and the whole length are there once it is finished. */ isPlayable && html`<${Player} key=${id} m=${highlight} version=${status} refresh=${() => call('GET', path)} onProblem=${setProblem} />`}
      <p role="status">${problem && html`<span class="note">${problem}</span>`}</p>
    </div>`
}

function Progress({ highlight }) {
  const { percent = 0, eta_sec: left } = highlight.progress ?? {}
  const parts = [highlight.progress && `${Math.floor(percent)} %`, left && `${seconds(left)} left`]
  return html`
    <div class="highlight-progress">
      <p><strong class="step">${words.progressOf(highlight).text}</strong> <span class="muted small">${parts.filter(Boolean).join(' · ')}</span></p>
      <progress max="100" value=${percent} aria-label="The highlight is being made"></progress>
    </div>`
}

/** Items that are done are lit, and the one that is being made pulses. In the finished highlight each leads to its place. */
function Items({ org, highlight, onFound, nameOf: name, onPlay }) {
  const { items, media_ids: ids, error, progress, status } = highlight
  const done = status === 'processing' ? words.progressOf(highlight).done : items.length
  const stateAt = (i) => {
    if (error?.media_id === ids[i]) return 'failed'
    if (items[i].skipped) return 'skipped'
    if (i < done) return 'done'
    return i === done && progress ? 'now' : 'waiting'
  }
  return html`
    <ol class="highlight-items" aria-label="Items of the highlight">
      ${items.map(({ media_id: id, start_sec: start, skipped }, i) => {
        const label = [`Item ${i + 1}`, name(id), start !== null && `at ${clock(start)}`, skipped && 'left out']
          .filter(Boolean)
          .join(', ')
        return html`
          <li key=${id} data-media=${id} data-state=${stateAt(i)} style=${{ '--hue': hue(id) }} title=${name(id)}>
            <button type="button" disabled=${start === null} aria-label=${label} onClick=${() => onPlay(start)}>
              <${PictureOf} org=${org} id=${id} onFound=${(m) => onFound(id, m)} isLazy /><span class="place">${i + 1}</span>
            </button>
          </li>`
      })}
    </ol>
    <p class="small left-out">${words.leftOutOf(highlight, name)}</p>`
}

function Music({ id }) {
  const track = useTracks().data?.find((one) => one.music_track_id === id)
  return html`
    <p class="highlight-music">
      <svg aria-hidden="true" viewBox="0 0 20 20" width="18" height="18"><path d="M7.5 15V5l8-1.5v9.5" /><circle cx="5.5" cy="15" r="2" /><circle cx="13.5" cy="13" r="2" /></svg>
      <span>${track ? `${track.title} · ${creditOf(track)}` : 'With music'}</span>
    </p>`
}

const remove = (title, path) =>
  ask({
    title: `Delete “${title}”?`,
    text: 'It is gone for everyone, and cannot be restored. Its photos and videos stay.',
    label: 'Delete',
    async run() {
      await call('DELETE', path)
      toastNext('The highlight is deleted. Its photos and videos are still there.')
      location.replace('#highlights')
    },
  })
