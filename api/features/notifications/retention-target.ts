import { formatId, type Uuid } from '../../../lib/contract/ids.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { RetentionTarget } from '../../retention/target.ts'
import {
  claimNotifications,
  countDueNotifications,
  countNotifications,
  deleteLeased,
  listDueNotifications,
  NOTIFICATION_LEASES,
} from './retention-queries.ts'

/** Some that are deleted in one transaction: they have no objects to wait for. */
interface Some {
  ids: Uuid[]
}
const AT_ONCE = 50

/** What people were told of, with its deliveries. */
export const oldNotifications: RetentionTarget<Some> = {
  name: 'Notifications',
  leases: NOTIFICATION_LEASES,
  few: 1000,
  total: countNotifications,
  countDue: countDueNotifications,
  async claim(tx, due, o) {
    const { ids, held } = await claimNotifications(tx, due, o)
    const items = Array.from({ length: Math.ceil(ids.length / AT_ONCE) }, (_, i) => ({
      ids: ids.slice(i * AT_ONCE, (i + 1) * AT_ONCE),
    }))
    return { items, held }
  },
  about: ({ ids }) => ({ rows: ids, id: formatId('notification', ids[0] as Uuid) }),
  async handle({ db, count }, { ids }, { token }) {
    const purged = await db.inTransaction({}, async (tx) => {
      const deleted = await deleteLeased(tx, { ids, token })
      if (deleted > 0) await count(tx, { purged: deleted })
      failpoint('notifications.deleted')
      return deleted
    })
    return purged > 0 ? 'done' : 'lost'
  },
  async list(tx, due, o) {
    const rows = await listDueNotifications(tx, due, o)
    const last = rows.at(-1)
    return {
      lines: rows.map((row) => ({ ...row, bytes: 0, id: formatId('notification', row.id), action: 'purge' })),
      last: last ? `${last.since} ${last.id}` : '',
    }
  },
}
