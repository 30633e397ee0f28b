import { forgetUnsent } from '../discussions/drafts.js'
import { forgetUploads } from '../uploads/memory.js'
import { endUploads } from '../uploads/uploads.js'

/** The group that was shown last, in whichever tab. */
export const GROUP = 'keepsake.group'

/** The person leaves this browser: what it has kept of them is not there for the next one. */
export function forgetPerson() {
  endUploads()
  forgetUploads()
  forgetUnsent()
  localStorage.removeItem(GROUP)
  history.replaceState(null, '', location.pathname)
}
