import { call } from '../lib/api.js'
import { useChanges } from '../lib/changes.js'
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { Empty, Intro, More, Problem, Wait } from '../lib/parts.js'
import { usePolled } from '../lib/poll.js'
import { announce } from '../lib/toast.js'
import { Item } from './item.js'
import { newFeed } from './store.js'
import { newsOf } from './words.js'

/** Changes are told; a look now and then shows what was lost on the way. */
const LOOK_MS = 60_000
/** So far from the top, a person reads and waits for nothing. */
const NEAR_TOP = 120
const PICTURE = html`<circle cx="16" cy="12" r="4" /><path d="M24 10h28M24 15h18" /><circle cx="16" cy="28" r="4" /><path d="M24 26h28M24 31h12" /><path d="M16 18v4M16 34v8" />`

/** What happened in all groups of the person. */
export const Feed = (given) =>
  html`<${News} ...${given} path="/api/users/me/feed" title="Feed" text="What happened in your groups" inAll />`

/** What happened in one group. */
export const Timeline = (given) =>
  html`<${News} ...${given} path=${`/api/orgs/${given.org.org_id}/timeline`} title="Feed" text=${`What happened in ${given.org.name}`} />`

/** What one person did, in the groups that the viewer shares with them. */
export const Person = (given) =>
  html`<${News} ...${given} path=${`/api/users/${encodeURIComponent(given.id)}/timeline`} titleOf=${nameIn} text="In the groups that you share" inAll isOne />`

const nameIn = (items) => items?.[0]?.actor_name ?? 'Timeline'

function News({ path, title: fixed, titleOf, text, org, organizations, inAll, isOne }) {
  const feed = useMemo(() => newFeed((query) => call('GET', `${path}?${new URLSearchParams(clean(query))}`)), [path])
  const [fresh, setFresh] = useState(0)
  const [isMore, setMore] = useState(false)
  /** Why earlier items did not come. They are asked for by itself once a look shows that it may go better. */
  const [failure, setFailure] = useState()
  const list = useRef()
  const look = async () => {
    const shown = await feed.look()
    setFailure(undefined)
    if (shown.added > 0) announce(newsOf(shown.added))
    if (shown.added > 0 && scrollY > NEAR_TOP) setFresh((before) => before + shown.added)
    return shown
  }
  const polled = usePolled(look, [path], LOOK_MS)
  useChanges((orgIds) => (inAll || !orgIds || orgIds.includes(org.org_id)) && void polled.reload())
  useEffect(() => {
    const scrolled = () => scrollY <= NEAR_TOP && setFresh(0)
    addEventListener('scroll', scrolled, { passive: true })
    return () => removeEventListener('scroll', scrolled)
  }, [])
  const { items, hasMore } = polled.data ?? {}
  const more = async () => {
    if (isMore) return
    setMore(true)
    setFailure(undefined)
    await feed.more().then(polled.set, setFailure)
    setMore(false)
  }
  const title = fixed ?? titleOf(items)
  useStill(list)
  const toTop = () => {
    setFresh(0)
    scrollTo({ top: 0 })
    list.current?.querySelector('.news')?.focus({ preventScroll: true })
  }
  const many = organizations.length > 1
  const groups = new Map(organizations.map((one) => [one.org_id, one]))
  return html`
    <section class="view-feed" aria-label=${title}>
      ${isOne && html`<p class="back"><a class="button quiet" href="#feed"><${Icon} name="back" size="18" />The feed</a></p>`}
      <${Intro} title=${title} text=${text}>${many && !isOne && html`<${Choice} org=${org} inAll=${inAll} />`}<//>
      <${Problem} class="banner" error=${polled.error} />
      ${!items && !polled.error && html`<${Wait} />`}
      ${items?.length === 0 && !hasMore && html`<${Empty} title="It is quiet here" text="New photos, albums, events and comments of your friends appear here by themselves." picture=${PICTURE}><a class="button primary" href="#">Add the first photos</a><//>`}
      ${fresh > 0 && html`<p class="fresh"><button class="button primary" type="button" onClick=${toTop}><${Icon} name="up" size="16" />${newsOf(fresh)}</button></p>`}
      <ol ref=${list} class="news-list" aria-label="What happened" aria-busy=${String(isMore)}>
        ${items?.map((item) => html`<${Item} key=${item.timeline_item_id} item=${item} org=${groups.get(item.org_id) ?? org} inAll=${inAll && many} />`)}
      </ol>
      <${Further} list=${{ hasMore, isMore, more }} failure=${failure} />
    </section>`
}

const clean = ({ limit, cursor }) => ({ limit, ...(cursor && { cursor }) })

/** All groups, or the one that the bar shows. */
const Choice = ({ org, inAll }) => html`
  <nav class="feed-choice" aria-label="Whose feed">
    <a class="button" href="#feed" aria-current=${inAll ? 'page' : undefined}>All groups</a>
    <a class="button" href="#timeline" aria-current=${inAll ? undefined : 'page'}>${org.name}</a>
  </nav>`

/** The rest of a list is asked for shortly before its end is seen. */
function Further({ list, failure }) {
  const end = useRef()
  const latest = useRef()
  latest.current = list
  useEffect(() => {
    // After a failure the end is still to be seen, and would be asked for again at once, without an end.
    if (!list.hasMore || list.isMore || failure) return
    const near = new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && latest.current.more(), {
      rootMargin: '800px',
    })
    near.observe(end.current)
    return () => near.disconnect()
  }, [list.hasMore, list.isMore, failure])
  return html`<div ref=${end}><${Problem} class="small" error=${failure} /><${More} list=${list} label="Show earlier" /></div>`
}

/** What a person reads stays where it is when the list grows above it: not every browser does that by itself. */
function useStill(list) {
  const before = firstSeen(list.current)
  useLayoutEffect(() => {
    const now = before && list.current.querySelector(`[data-item="${before.id}"]`)?.getBoundingClientRect().top
    if (now !== undefined && now !== before.top) scrollBy({ top: now - before.top, behavior: 'instant' })
  })
}

/** The first item that is seen, and where; undefined at the top of the page, where new items are to be seen. */
function firstSeen(list) {
  if (!list || scrollY <= NEAR_TOP) return undefined
  const head = document.querySelector('.bar')?.offsetHeight ?? 0
  for (const item of list.children) {
    const { top, bottom } = item.getBoundingClientRect()
    if (bottom > head) return { id: item.dataset.item, top }
  }
  return undefined
}
