import type { ListedObject, ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { type Folder, folderOf, isPrefix, ROOTS } from './folder-plan.ts'

/** A folder with what the store has in it. */
export interface Found extends Folder {
  objects: number
  bytes: number
  newestMs: number
}

type Listed = Pick<ListedObject, 'key' | 'size' | 'lastModified'>

/** Keys of no known kind are passed to `onUnknown`. One folder at a time is in memory, however many objects there are. */
export async function* foldersIn(
  objects: AsyncIterable<Listed>,
  onUnknown: (object: Listed) => void = () => {},
): AsyncGenerator<Found> {
  let open: Found | undefined
  for await (const object of objects) {
    // A list is in key order, so a folder is whole when a key of another one comes.
    if (open && isPrefix(open) && object.key.startsWith(open.path)) {
      add(open, object)
      continue
    }
    if (open) yield open
    const folder = folderOf(object.key)
    open = folder && { ...folder, objects: 0, bytes: 0, newestMs: 0 }
    if (open) add(open, object)
    else onUnknown(object)
  }
  if (open) yield open
}

function add(found: Found, { size, lastModified }: Listed): void {
  found.objects += 1
  found.bytes += size
  found.newestMs = Math.max(found.newestMs, lastModified.getTime())
}

/** All that rows govern in the store, in windows of `size` folders. */
export async function* windowsOf(
  store: Pick<ObjectStore, 'list'>,
  size: number,
  onUnknown?: (object: Listed) => void,
): AsyncGenerator<Found[]> {
  let window: Found[] = []
  for (const root of ROOTS) {
    for await (const found of foldersIn(store.list(root), onUnknown)) {
      window.push(found)
      if (window.length < size) continue
      yield window
      window = []
    }
  }
  if (window.length > 0) yield window
}

/** What is in the folder now; undefined when nothing is. */
export async function lookAgain(store: Pick<ObjectStore, 'list'>, { path }: Folder): Promise<Found | undefined> {
  for await (const found of foldersIn(store.list(path))) if (found.path === path) return found
  return undefined
}
