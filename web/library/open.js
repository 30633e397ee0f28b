import { openViewer } from '../viewer/viewer.js'

/** Opens a media item by its id, wherever in the library it is. */
export async function openById(library, id) {
  const m = library.find(id) ?? (await library.refresh({ media_id: id }).catch(() => undefined))
  if (m) openViewer(m, library)
}
