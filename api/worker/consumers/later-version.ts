import { EVENTS } from '../../../lib/contract/events.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import type { Database } from '../../db/db.ts'
import { NOT_READABLE, readParked } from './message.ts'
import { findUnread, replayUnread } from './queries.ts'

const BATCH = 200

/**
 * Asks for the replay of what an earlier version could not read and this one can. Runs whenever a consumer looks for
 * replays: a version that was upgraded finds it as it takes the turn. What is asked for twice is handled once.
 */
export async function replayWhatIsReadable({ db, log }: { db: Database; log: Log }, consumer: string): Promise<void> {
  const unread = { consumer, types: Object.keys(EVENTS), reason: NOT_READABLE, limit: BATCH }
  let asked = 0
  for (let after = 0; ; ) {
    const found = await db.read({}, (tx) => findUnread(tx, { ...unread, after }))
    const readable = found.filter(({ event }) => readParked(event).event).map(({ messageId }) => messageId)
    if (readable.length > 0) asked += await db.inTransaction({}, (tx) => replayUnread(tx, consumer, readable))
    const last = found.at(-1)
    if (!last || found.length < BATCH) break
    after = last.position
  }
  if (asked === 0) return
  log.info({ consumer, events: asked }, 'events that an earlier version could not read are handled now')
  failpoint('consumer.readable')
}
