import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'

/** The same store, and how many objects were read, and the most bytes that were asked for at once. */
export function countingStore(store: ObjectStore) {
  const count = { reads: 0, asked: 0 }
  const get: ObjectStore['get'] = async (key, range, signal) => {
    const got = await store.get(key, range, signal)
    const { size } = got.info
    const end = Math.min((range?.end ?? size - 1) + 1, size)
    count.reads += 1
    count.asked = Math.max(count.asked, end - (range?.start ?? 0))
    return got
  }
  const download: ObjectStore['download'] = async (key, path, signal) => {
    const info = await store.download(key, path, signal)
    count.reads += 1
    count.asked = Math.max(count.asked, info.size)
    return info
  }
  return { store: { ...store, get, download }, count }
}
