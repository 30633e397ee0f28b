import { call } from '../lib/api.js'
import { ask } from '../lib/dialogs.js'
import { may } from '../lib/permissions.js'
import { inWords } from '../lib/refusals.js'
import { announce, toastNext } from '../lib/toast.js'

/** How a participation ends: the viewer leaves, or, where the viewer may do that, others are removed. */
export function partingsOf({ event, org, path, look }) {
  const leave = () =>
    ask({
      title: `Leave “${event.title}”?`,
      text: org.isGuest
        ? 'You no longer see the event, its album and what is said about it. To come back, you need another invitation.'
        : 'You no longer take part. To take part again, you need another invitation.',
      label: 'Leave',
      async run() {
        await call('DELETE', `${path}/participants/me`)
        if (!org.isGuest) {
          announce('You left the event')
          return look()
        }
        toastNext('You left the event')
        location.replace('#events')
      },
      say: inWords,
    })
  const removeOne = ({ user_id, display_name: name }) =>
    ask({
      title: `Remove ${name ?? 'this person'} from “${event.title}”?`,
      text: 'They no longer take part, and their open invitations to the event are withdrawn. Who is no member of the group no longer sees the event.',
      label: 'Remove',
      async run() {
        await call('DELETE', `${path}/participants/${user_id}`)
        announce(`${name ?? 'The person'} no longer takes part`)
        await look()
      },
      say: inWords,
    })
  return {
    /** For a menu. */
    leave: may(event, 'event.leave') && ['Leave the event', leave],
    removeOne: may(event, 'event.remove_participant') ? removeOne : undefined,
  }
}
