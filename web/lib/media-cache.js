import { call } from './api.js'
import { usePolled } from './poll.js'

const MAX_KNOWN = 500
const known = new Map()

/**
 * A media item by its id: albums and comments name some without their links. Undefined when it is gone; rejects when that
 * cannot be known now. Asked for once, unless `isFresh`: the links of an earlier answer expire.
 */
export function mediaOf(org, id, { isFresh } = {}) {
  const key = `${org.org_id}/${id}`
  if (isFresh) known.delete(key)
  if (!known.has(key)) known.set(key, ask(key))
  if (known.size > MAX_KNOWN) known.delete(known.keys().next().value)
  return known.get(key)
}

async function ask(key) {
  try {
    const m = await call('GET', `/api/media/${key}`)
    // Until it is converted, it has yet to get its picture.
    if (m.upload_status === 'processing') known.delete(key)
    return m
  } catch (error) {
    known.delete(key)
    if (error.status !== 404 && error.status !== 403) throw error
    return undefined
  }
}

/** The same for a component: undefined until it is known, null when it is gone. Without a connection, it is waited for. */
export function useMediaOf(org, id) {
  const { data } = usePolled(async () => ({ m: id ? await mediaOf(org, id) : undefined }), [org.org_id, id], 0)
  return data && (data.m ?? null)
}
