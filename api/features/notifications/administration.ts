import { formatId } from '../../../lib/contract/ids.ts'
import { type Commands, idOf, textOf, UsageError } from '../../command-line/command.ts'
import { maskEmail, maskPhone } from '../invitations/mask.ts'
import { isListable, type ListedDelivery, listDeliveries, retryDeliveries } from './administration-queries.ts'

const MAX_LISTED = 200

/** Commands of administrators. */
export const notificationCommands: Commands = {
  'notifications list': {
    args: [],
    options: { state: 'string', notification: 'string' },
    help: [
      'notifications list [--state STATE] [--notification ID]',
      `show the latest ${MAX_LISTED} deliveries, of one state (pending, sending, sent, failed, uncertain or`,
      'suppressed) or of one notification; addresses are masked',
    ],
    async run({ db }, _, options) {
      const state = textOf(options, 'state')
      if (state !== undefined && !isListable(state)) throw new UsageError(`${state} is not a state of a delivery`)
      const given = textOf(options, 'notification')
      const notificationId = given === undefined ? undefined : idOf('notification', given)
      const rows = await db.read({}, (tx) => listDeliveries(tx, { state, notificationId, limit: MAX_LISTED }))
      return { deliveries: rows.map(shown) }
    },
  },
  'notifications retry': {
    args: ['NOTIFICATION'],
    help: [
      'notifications retry NOTIFICATION',
      'send the failed, uncertain and suppressed deliveries of a notification again; of an uncertain one',
      'the recipient may get a second copy',
    ],
    async run({ db }, [notification = '']) {
      const id = idOf('notification', notification)
      return { retried: await db.inTransaction({}, (tx) => retryDeliveries(tx, id)) }
    },
  },
}

const shown = (row: ListedDelivery) => ({
  notification_id: formatId('notification', row.notificationId),
  org_id: row.orgId === null ? null : formatId('organization', row.orgId),
  template: row.template,
  channel: row.channel,
  recipient: recipientOf(row),
  state: row.state,
  attempts: row.attempts,
  reason: row.reason,
  created_at: row.createdAt.toISOString(),
  next_attempt_at: row.state === 'pending' ? row.nextAttemptAt.toISOString() : null,
})

function recipientOf({ channel, destination, userId, email, phoneNumber }: ListedDelivery): string {
  if (channel === 'email') return maskEmail(destination)
  if (userId !== null) return formatId('user', userId)
  return email !== null ? maskEmail(email) : maskPhone(phoneNumber ?? '')
}
