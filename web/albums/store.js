import { call, patiently } from '../lib/api.js'
import { inWords } from '../lib/refusals.js'
import { announce, toast } from '../lib/toast.js'
import { newPager } from './pager.js'
import { ALBUM_REFUSALS, moved } from './words.js'

const PAGE = 500
/** How often an order is made anew when others add and remove meanwhile. */
const MAX_MERGES = 3

/**
 * The media items of the album at `path`, in its order. What a person moves is in its place at once, and is then saved.
 * `onChanged()` is called when other items are to be shown, `onTaken(m)` with the present state of each, `onSaved()` when
 * an order is saved.
 */
export function newAlbumMedia(path, { onChanged, onTaken, onSaved }) {
  const pager = newPager(`${path}/media`, 'media', { limit: PAGE })
  let items = []
  /** The album when the items were read. Undefined: they have to be read again. */
  let state
  /** The item that a person holds, and before or behind which other one: {id, after, before}. */
  let held
  let isSaving = false
  let loading
  /** What is not saved yet. */
  let moves = []
  /** Counts what this person changes: pages that were asked for before may be from before it. */
  let changes = 0

  /** A page that was read before another one may have an item that has moved since. */
  const loaded = () => [...new Map(pager.items().map((m) => [m.media_id, m])).values()]
  const isConverting = () => items.some((m) => m.upload_status === 'processing')
  const show = (next) => {
    items = next
    onChanged()
  }

  /** Every change of an album gives it a new time; only a deleted or restored media item does not, and it counts. */
  async function look({ updated_at, media_count }) {
    const now = [updated_at, media_count].join()
    // While a person holds an item the answer would be dropped; while an order is saved, asking would overtake the request that makes it anew.
    if (held || isSaving || (state === now && !isConverting())) return
    const before = changes
    const isNewest = await pager.again()
    // What the person is moving stays as they see it, until it is saved.
    if (!isNewest || held || isSaving || before !== changes) return
    state = now
    for (const m of loaded()) onTaken(m)
    show(loaded())
  }

  async function next() {
    await patiently(() => pager.more())
    const known = new Set(items.map((m) => m.media_id))
    show([...items, ...pager.items().filter((m) => !known.has(m.media_id))])
  }

  async function loadRest() {
    while (pager.hasMore()) await next()
  }

  /**
   * One order at a time is sent; of several, the last one counts. The API wants all items of the album in it: if another
   * person has added or removed one meanwhile, what this person moved is moved again in the album as it is then.
   */
  async function place(change) {
    moves.push(change)
    changes++
    held = undefined
    show(moved(items, change))
    if (isSaving) return
    isSaving = true
    try {
      const isMerged = await sendOrders()
      announce('The order is saved')
      if (isMerged) toast('Someone else changed the album meanwhile. Your order is saved, with what they changed.')
    } catch (error) {
      state = undefined
      toast(inWords(error, ALBUM_REFUSALS))
    }
    isSaving = false
    moves = []
    onSaved()
  }

  /** Sends orders until there is nothing new to send. Returns whether others have changed the album meanwhile. */
  async function sendOrders() {
    let merges = 0
    while (moves.length > 0) {
      await loadRest()
      const sent = moves.length
      try {
        await call('POST', `${path}/media/reorder`, { media_ids: items.map((m) => m.media_id) })
        moves.splice(0, sent)
      } catch (error) {
        if (error.code !== 'REORDER_MISMATCH' || ++merges > MAX_MERGES) throw error
        await patiently(() => pager.again())
        while (pager.hasMore()) await patiently(() => pager.more())
        show(moves.reduce(moved, loaded()))
      }
    }
    return merges > 0
  }

  return {
    ...{ look, loadRest, place, isConverting, hasMore: pager.hasMore },
    items: () => items,
    /** The items as they are shown: one that is held is where it is held. */
    shown: () => (held ? moved(items, held) : items),
    find: (id) => items.find((m) => m.media_id === id),
    isLarge: () => items.length > PAGE,
    held: () => held?.id,
    /** The next page. Not while an item is held; of two at once, the second would load the same one. */
    async more() {
      if (held || !pager.hasMore()) return
      loading ??= next().finally(() => {
        loading = undefined
      })
      await loading
    },
    hold(change) {
      held = change
      onChanged()
    },
    let() {
      held = undefined
      onChanged()
    },
    /** What a change has made of an item; undefined: it is gone. */
    put(id, m) {
      changes++
      state = undefined
      show(items.flatMap((other) => (other.media_id === id ? (m ?? []) : other)))
    },
    /** The present state of an item, with new links. */
    async refresh(m) {
      const fresh = { ...m, ...(await call('GET', `/api/media/${m.org_id}/${m.media_id}`)) }
      show(items.map((other) => (other.media_id === m.media_id ? fresh : other)))
      onTaken(fresh)
      return fresh
    },
  }
}
