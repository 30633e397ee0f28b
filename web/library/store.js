import { call } from '../lib/api.js'
import { groupBy } from '../lib/group-by.js'
import { monthOf, newTimeline } from './timeline.js'
import { newLoader } from './timeline-loader.js'

/** Media items in memory; the pictures of those that are out of sight are not. */
const KEPT = 4000
/** Media items that are watched one by one while they are converted. */
const WATCHED = 12

/**
 * When a photo was taken is known once it has been converted. Until then it stands above the months, so that it does not
 * appear under one month and jump to another.
 */
const isArriving = (m) => m.upload_status === 'processing' && !m.captured_at

/** What the page knows of the library of a group. `changed()` is called when something else is to be drawn. */
function newLibrary(org) {
  const timeline = newTimeline()
  const arriving = new Map()
  let looks = 0
  const listeners = new Set()
  /**
   * Where the window was, and whether the months have been asked for. `onDropped` are told the id of each media item that is
   * gone; `inUse` return those media items that the person has chosen or looks at.
   */
  const self = { org, scroll: 0, isKnown: false, onTaken: new Set(), onDropped: new Set(), inUse: new Set() }
  const changed = () => {
    for (const tell of [...listeners]) tell()
    void askAboutMissing()
  }
  const sorted = {
    ...timeline,
    receive(start, page) {
      for (const m of page.media) {
        if (isArriving(m)) arriving.set(m.media_id, m)
        else arriving.delete(m.media_id)
      }
      timeline.receive(start, page, isArriving)
    },
  }
  const loader = newLoader(org, sorted, changed)
  const base = `/api/media/${org.org_id}`

  /** The newest state of a media item. */
  function take(m) {
    // Also one that is still arriving goes to the end: its next look comes after those of the others.
    arriving.delete(m.media_id)
    if (isArriving(m)) arriving.set(m.media_id, m)
    else timeline.put(m)
    for (const tell of [...self.onTaken]) tell(m)
  }

  /** The newest first, as they are shown. */
  const waiting = () => [...arriving.values()].sort((a, b) => (a.created_at < b.created_at ? 1 : -1))

  function drop(id) {
    if (!arriving.delete(id)) timeline.drop(id)
    for (const tell of [...self.onDropped]) tell(id)
  }

  /** What is in use and no longer known may have been deleted, or may only be out of sight. Each is asked about once. */
  const asked = new Set()
  async function askAboutMissing() {
    const missing = []
    for (const m of [...self.inUse].flatMap((itemsOf) => itemsOf())) {
      if (find(m.media_id)) asked.delete(m.media_id)
      else if (!asked.has(m.media_id)) missing.push(m)
    }
    for (const m of missing) asked.add(m.media_id)
    for (const m of missing) await refresh(m).catch((error) => error.status !== 404 && asked.delete(m.media_id))
  }

  const find = (id) => arriving.get(id) ?? timeline.find(id)

  /** The present state of a media item, with new links. One that is gone leaves the library. */
  async function refresh(m) {
    try {
      const fresh = await call('GET', `${base}/${m.media_id}`)
      take(fresh)
      changed()
      return fresh
    } catch (error) {
      if (error.status === 404) {
        drop(m.media_id)
        changed()
      }
      throw error
    }
  }

  /** Asks for the months and for what was uploaded last. `onScreen` are ids whose conversion is watched as well. */
  async function look(onScreen = []) {
    const [{ months }, latest] = await Promise.all([call('GET', `${base}/months`), call('GET', `${base}?limit=50`)])
    for (const m of latest.media) take(m)
    const known = new Set(latest.media.map((m) => m.media_id))
    const isBusy = (m) => m && m.upload_status === 'processing' && !known.has(m.media_id)
    // The conversion begins with the oldest. A dozen long videos among them must not hide what is done behind them: every
    // other look asks about those that were asked about longest ago.
    const inOrder = looks++ % 2 === 0 ? waiting().reverse() : [...arriving.values()]
    const watched = [...inOrder, ...onScreen.map((id) => timeline.find(id))].filter(isBusy).slice(0, WATCHED)
    for (const m of watched) await refresh(m).catch(() => {})
    // The API counts under the month of the upload what has yet to find its own.
    const early = groupBy([...arriving.values()], monthOf)
    timeline.setMonths(
      months
        .map(({ month, count }) => ({ month, count: Math.max(0, count - (early.get(month)?.length ?? 0)) }))
        .filter((m) => m.count > 0),
    )
    self.isKnown = true
    changed()
    const busy = latest.media.filter((m) => m.upload_status === 'processing').length
    return { busy, isBusy: busy + watched.length > 0, total: timeline.total() + arriving.size }
  }

  function neighbour(id, step) {
    const list = waiting()
    const at = list.findIndex((m) => m.media_id === id)
    const first = timeline.months()[0]
    if (at >= 0 && list[at + step]) return { item: list[at + step] }
    if (at >= 0) {
      if (step < 0 || !first) return {}
      return first.items[0] ? { item: first.items[0] } : { missing: { month: first.month, index: 0 } }
    }
    const found = timeline.neighbour(id, step)
    return found.item || found.missing || step > 0 || list.length === 0 ? found : { item: list.at(-1) }
  }

  return Object.assign(self, {
    ...{ take, drop, refresh, look, neighbour, changed },
    find,
    load: (missing) => loader.load(missing),
    trim: (near) => timeline.trim(KEPT, near),
    months() {
      const items = waiting()
      const months = timeline.months().filter((month) => month.places > 0)
      if (items.length === 0) return months
      return [{ month: 'arriving', title: 'Just added', count: items.length, places: items.length, items }, ...months]
    },
    subscribe(tell) {
      listeners.add(tell)
      return () => listeners.delete(tell)
    },
    end: () => loader.end(),
  })
}

let current

/** The library of a group: the one that is known, so that going to another view and back shows it at once. */
export function libraryOf(org) {
  if (current?.org.org_id !== org.org_id) {
    current?.end()
    current = newLibrary(org)
  }
  return current
}

export function forgetLibrary() {
  current?.end()
  current = undefined
}
