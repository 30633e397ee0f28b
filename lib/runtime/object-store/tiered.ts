import { isColdKey } from '../../contract/cold-key.ts'
import type { ListedObject, ObjectStore } from './object-store.ts'

/** Two stores as one: cold keys lie in the second one. */
export function openTieredStore(hot: ObjectStore, cold: ObjectStore): ObjectStore {
  const of = (key: string) => (isColdKey(key) ? cold : hot)
  return {
    put: (key, ...given) => of(key).put(key, ...given),
    get: (key, ...given) => of(key).get(key, ...given),
    head: (key) => of(key).head(key),
    list: (prefix) => merged(hot.list(prefix), cold.list(prefix)),
    delete: (key) => of(key).delete(key),
    deleteForGood: (key) => of(key).deleteForGood(key),
    async deletePrefix(prefix) {
      const [some, others] = [await hot.deletePrefix(prefix), await cold.deletePrefix(prefix)]
      return some + others
    },
    // The store of the copy knows where the other one is.
    copy: (from, to, o) => of(to).copy(from, to, o),
    createMultipart: (key, o) => of(key).createMultipart(key, o),
    putPart: (key, ...given) => of(key).putPart(key, ...given),
    listParts: (key, id) => of(key).listParts(key, id),
    completeMultipart: (key, ...given) => of(key).completeMultipart(key, ...given),
    abortMultipart: (key, id) => of(key).abortMultipart(key, id),
    download: (key, ...given) => of(key).download(key, ...given),
    upload: (path, key, o) => of(key).upload(path, key, o),
    presignGet: (key, ...given) => of(key).presignGet(key, ...given),
    check: async () => void (await Promise.all([hot.check(), cold.check()])),
    checkColdTier: () => cold.checkColdTier(),
    close: async () => void (await Promise.all([hot.close(), cold.close()])),
  }
}

/** Of two lists in key order, one. */
async function* merged(
  ...lists: [AsyncIterable<ListedObject>, AsyncIterable<ListedObject>]
): AsyncIterable<ListedObject> {
  const [a, b] = [lists[0][Symbol.asyncIterator](), lists[1][Symbol.asyncIterator]()]
  let [one, two] = [await a.next(), await b.next()]
  while (!one.done || !two.done) {
    if (two.done || (!one.done && one.value.key < two.value.key)) {
      yield one.value as ListedObject
      one = await a.next()
    } else {
      yield two.value
      two = await b.next()
    }
  }
}
