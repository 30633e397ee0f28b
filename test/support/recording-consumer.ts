import type { Tx } from '../../api/db/db.ts'
import { sql } from '../../api/db/orm.ts'
import type { Consumer } from '../../api/worker/consumers/consumer.ts'
import type { Uuid } from '../../lib/contract/ids.ts'
import { PoisonMessage } from '../../lib/runtime/event-bus/event-bus.ts'

/** Its effect is one row per event in this table, in order. */
export const EFFECTS = `create table effects (place bigint generated always as identity, id uuid, version int);
  grant insert, select on effects to keepsake_worker`

/** A version that it cannot handle. */
export const POISON = 666

export const recordingConsumer: Consumer = {
  name: 'recorder',
  types: ['MediaPurged'],
  async handle(tx: Tx, events) {
    if (events.some(({ aggregateVersion }) => aggregateVersion === POISON)) throw new PoisonMessage('bad picture')
    const ids = events.map(({ payload }) => (payload as { media_id: Uuid }).media_id)
    const versions = events.map(({ aggregateVersion }) => aggregateVersion)
    await tx.execute(sql`insert into effects (id, version)
      select * from unnest(${sql.param(ids)}::uuid[], ${sql.param(versions)}::int[])`)
  },
}
