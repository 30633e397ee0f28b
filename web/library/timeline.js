import { groupBy } from '../lib/group-by.js'

/** The month of a media item in the order `captured_at`. The API counts months in UTC. */
export const monthOf = (m) => takenAt(m).slice(0, 7)
const takenAt = (m) => m.captured_at ?? m.created_at
const isNewer = (a, b) => (takenAt(a) === takenAt(b) ? a.media_id > b.media_id : takenAt(a) > takenAt(b))

/** A media item whose time of capture becomes known moves, and may come again in a later page of its month. */
function lastOfEach(items) {
  const byId = new Map()
  for (const m of items) {
    byId.delete(m.media_id)
    byId.set(m.media_id, m)
  }
  return [...byId.values()]
}

/**
 * What the page knows of a library: the months and their counts, and the media items of the months that it has loaded.
 * A list has cursors and no page numbers, so a month is reached from the nearest newer month whose end was seen before.
 * Decides only; the caller fetches.
 */
export function newTimeline() {
  /**
   * By month: `items` are shown; `found` is what a walk through the pages has found so far, from the newest on. `isStale`:
   * what is shown has to be loaded again, though none of its places is empty.
   */
  const records = new Map()
  const monthById = new Map()
  let order = []

  function setMonths(months) {
    const before = new Map(order.map(({ month, count }) => [month, count]))
    for (const record of records.values()) record.count = 0
    for (const { month, count } of months) recordOf(month).count = count
    for (const record of [...records.values()]) if (record.count === 0) empty(record)
    for (const record of order) compare(record, before.get(record.month))
  }

  function recordOf(month) {
    const known = records.get(month)
    if (known) return known
    const record = {
      month,
      count: 0,
      /** The highest count since what is shown was last known to be right. */
      most: 0,
      items: [],
      found: undefined,
      next: undefined,
      mark: undefined,
      isWhole: false,
      isStale: false,
      doubts: 0,
    }
    records.set(month, record)
    sort()
    return record
  }

  function sort() {
    order = [...records.values()].sort((a, b) => (a.month < b.month ? 1 : -1))
  }

  /** A walk through pages of what stands elsewhere goes on from the mark that it has left there. */
  function empty(record) {
    for (const m of record.items) monthById.delete(m.media_id)
    record.items = []
    if (record.mark !== undefined) return
    records.delete(record.month)
    sort()
  }

  /**
   * Another member may have added or deleted something. Twice, because the two answers are of different moments. Of a
   * month that is known in part, only the count can tell: what was deleted may be among what is shown. It has to stand
   * still: while many are converted it changes all the time, and a walk would begin again and again.
   */
  function compare(record, countBefore) {
    record.doubts = record.isWhole && record.items.length !== record.count ? record.doubts + 1 : 0
    record.most = record.items.length === 0 ? record.count : Math.max(record.most, record.count)
    const isFewer = record.count < record.most && record.count === countBefore
    const isDoubtful = record.isWhole ? record.doubts === 2 : isFewer
    if (!isDoubtful) return
    const { count } = record
    Object.assign(record, { isWhole: false, isStale: true, most: count, found: undefined, next: undefined, doubts: 0 })
  }

  /** How many places a month takes up: what it has, and what it is said to have until all of it is known. */
  const placesOf = (record) => (record.isWhole ? record.items.length : Math.max(record.count, record.items.length))

  /** Where to begin so that the media item at `index` of `month` is found. Undefined when nothing is missing. */
  function startFor(month, index) {
    const record = records.get(month)
    if (!record || record.isWhole || (record.found?.length ?? 0) > index) return undefined
    if (record.found) return { cursor: record.next, from: month }
    const nearest = order.filter((r) => r.month > month && r.mark !== undefined).at(-1)
    return nearest ? { cursor: nearest.mark, from: nearest.month } : { cursor: undefined, from: undefined }
  }

  /** Takes in a page that was fetched from `start`. Of its media items those stay out that stand elsewhere. */
  function receive(start, page, isElsewhere = () => false) {
    const months = groupBy(page.media, monthOf)
    const last = page.has_more ? [...months.keys()].at(-1) : undefined
    for (const [month, all] of months) {
      const found = all.filter((m) => !isElsewhere(m))
      // The last one also without any: the walk goes on from there.
      if (found.length > 0 || month === last) add(recordOf(month), found, start)
    }
    finishPassed(start, last)
    if (last === undefined) return
    const record = recordOf(last)
    record.mark = page.next_cursor
    if (!isTail(record, start) && !record.isWhole) record.next = page.next_cursor
  }

  /** All that a page went through is known to its end, also months that turned out to be empty. */
  function finishPassed(start, last) {
    const isPassed = (r) =>
      (start.from === undefined || r.month <= start.from) && (last === undefined || r.month > last)
    for (const record of records.values()) if (isPassed(record) && !isTail(record, start)) finish(record)
  }

  /** A page that begins within a month continues what is known of it only if it begins where that ends. */
  const isTail = (record, { cursor, from }) =>
    record.month === from && !(record.found !== undefined && record.next === cursor)

  function add(record, found, start) {
    if (isTail(record, start) || record.isWhole) return
    if (record.month !== start.from) record.found = []
    record.found ??= []
    record.found = lastOfEach([...record.found, ...found])
    if (record.found.length < record.items.length) return
    show(record)
    record.isStale = false
  }

  function finish(record) {
    if (record.isWhole) return
    record.found ??= []
    show(record)
    Object.assign(record, { isWhole: true, isStale: false, found: undefined, next: undefined, doubts: 0 })
  }

  function show(record) {
    for (const m of record.items) if (monthById.get(m.media_id) === record.month) monthById.delete(m.media_id)
    record.items = [...record.found]
    for (const m of record.items) {
      const old = records.get(monthById.get(m.media_id))
      if (old && old !== record) old.items = old.items.filter((other) => other.media_id !== m.media_id)
      monthById.set(m.media_id, record.month)
    }
  }

  /** Cursors end after a day: begins anew, and shows what is known until then. */
  function restart() {
    for (const r of order) Object.assign(r, { mark: undefined, found: undefined, next: undefined })
  }

  /** Takes in the newest state of one media item, wherever it belongs now: its time of capture may just be known. */
  function put(m) {
    const before = find(m.media_id)
    const month = monthOf(m)
    if (before && takenAt(before) === takenAt(m)) return replace(records.get(month), m)
    remove(m.media_id)
    const record = records.get(month)
    if (!record) return
    // Beyond the end of what is known, the walk finds it.
    const isKnown = (list) => list && (record.isWhole || (list.length > 0 && isNewer(m, list.at(-1))))
    for (const list of new Set([record.items, record.found])) if (isKnown(list)) insert(list, m)
    if (record.items.includes(m)) monthById.set(m.media_id, month)
  }

  function replace(record, m) {
    for (const list of [record.items, record.found ?? []]) {
      const at = list.findIndex((other) => other.media_id === m.media_id)
      if (at >= 0) list[at] = m
    }
  }

  function insert(list, m) {
    const at = list.findIndex((other) => isNewer(m, other))
    list.splice(at < 0 ? list.length : at, 0, m)
  }

  function remove(id) {
    const record = records.get(monthById.get(id))
    monthById.delete(id)
    if (!record) return
    record.items = record.items.filter((m) => m.media_id !== id)
    record.found = record.found?.filter((m) => m.media_id !== id)
  }

  /** Removes a media item that was deleted, and counts one less until the API has been asked again. */
  function drop(id) {
    const record = records.get(monthById.get(id))
    if (record) Object.assign(record, { count: record.count - 1, most: record.most - 1 })
    remove(id)
  }

  const find = (id) => records.get(monthById.get(id))?.items.find((m) => m.media_id === id)

  /** The media item before (-1) or after (+1) another; `missing` where it has yet to be loaded. */
  function neighbour(id, step) {
    let at = order.findIndex((r) => r.month === monthById.get(id))
    if (at < 0) return {}
    let index = order[at].items.findIndex((m) => m.media_id === id) + step
    while (order[at] && (index < 0 || index >= placesOf(order[at]))) {
      at += step
      index = step > 0 ? 0 : placesOf(order[at] ?? { isWhole: true, items: [] }) - 1
    }
    const record = order[at]
    if (!record) return {}
    return record.items[index] ? { item: record.items[index] } : { missing: { month: record.month, index } }
  }

  /** Keeps at most about `limit` media items in memory. `near` are the months around what is shown; they stay. */
  function trim(limit, near) {
    let kept = order.reduce((sum, r) => sum + r.items.length, 0)
    for (const record of order) {
      if (kept <= limit) return
      if (near.has(record.month)) continue
      kept -= record.items.length
      for (const m of record.items) monthById.delete(m.media_id)
      Object.assign(record, { items: [], found: undefined, next: undefined, isWhole: false, isStale: false, doubts: 0 })
    }
  }

  return {
    setMonths,
    startFor,
    receive,
    restart,
    put,
    drop,
    find,
    neighbour,
    trim,
    months: () =>
      order
        .map((r) => ({
          ...{ month: r.month, count: r.count || r.items.length, places: placesOf(r), items: r.items },
          isStale: r.isStale,
        }))
        .filter(({ count }) => count > 0),
    total: () => order.reduce((sum, r) => sum + r.count, 0),
  }
}
