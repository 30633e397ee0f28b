import { findInGroups } from '../lib/find-in-groups.js'
import { inWords } from '../lib/refusals.js'
import { toast } from '../lib/toast.js'
import { openViewer } from '../viewer/viewer.js'
import { libraryOf } from './store.js'

/** Opens a media item by its id, in whichever group of the person it is. `onFound(org)` is told the group. */
export async function openById(id, { organizations, first, onFound }) {
  const known = libraryOf(first).find(id)
  if (known) return openViewer(known, libraryOf(first))
  const pathIn = (org) => `/api/media/${org.org_id}/${encodeURIComponent(id)}`
  try {
    const there = await findInGroups(pathIn, { organizations, first })
    if (!there) return toast('This photo cannot be shown.')
    onFound(there.org)
    const library = libraryOf(there.org)
    library.take(there.found)
    library.changed()
    openViewer(there.found, library)
  } catch (error) {
    // The frame says that there is no connection.
    if (error.code !== 'OFFLINE') toast(inWords(error))
  }
}
