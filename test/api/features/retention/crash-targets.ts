import t from 'tap'
import type { RetentionTarget } from '../../../../crds/retention-rules.ts'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import { startConversionTest } from '../../../support/conversion-world.ts'
import { aRun, retentionHere, startRetention } from '../../../support/retention.ts'
import { retentionItems } from '../../../support/retention-items.ts'

/**
 * The program killed between any two steps, for the targets that are smaller than the trash. Each death leaves items that were
 * claimed and not begun; test/api/features/retention/crash.ts has one where all are so.
 */
const { database, place: storage, world } = await startConversionTest(t)
const { admin } = database
const here = retentionHere({ database, store: storage.store })
const items = retentionItems({ admin, store: storage.store }, world)
const count = async (text: string, values: unknown[] = []) => (await admin.query(text, values)).rowCount

interface Case {
  target: RetentionTarget
  table: string
  after: string
  failpoints: string[]
  /** Makes three things that are due. */
  make(): Promise<Uuid[]>
  /** Whether nothing of it is left. */
  isGone(id: Uuid): Promise<boolean>
}
const several = (make: () => Promise<Uuid>) => Promise.all([make(), make(), make()])
const CASES: Case[] = [
  {
    target: 'Uploads',
    table: 'uploads',
    after: 'P1D',
    failpoints: ['upload.emptied', 'upload.released'],
    make: () => several(() => items.anUpload('open', '2 days')),
    isGone: async (id) =>
      !(await items.isStored(id)) &&
      (await count(`select from uploads where id = $1 and state = 'expired' and storage_released_at is not null`, [
        id,
      ])) === 1,
  },
  {
    target: 'PieceCache',
    table: 'media_pieces',
    after: 'P30D',
    failpoints: ['pieces.emptied', 'pieces.committed'],
    async make() {
      const sources = await several(() => items.aSource(10))
      await admin.query(
        `insert into media_pieces (media_id, org_id, used_at, bytes) select id, $2, now() - interval '31 days', 10
          from unnest($1::uuid[]) as made (id)`,
        [sources, world.org],
      )
      return sources
    },
    isGone: async (id) =>
      !(await items.hasPieces(id)) && (await count('select from media_pieces where media_id = $1', [id])) === 0,
  },
  {
    target: 'Notifications',
    table: 'notifications',
    after: 'P90D',
    failpoints: ['notifications.deleted'],
    make: () => several(() => items.aNotification('91 days')),
    isGone: async (id) => (await count('select from notifications where id = $1', [id])) === 0,
  },
]

// Side by side: each has a table of its own, and most of it is waiting.
t.jobs = CASES.length
for (const { target, table, after, failpoints, make, isGone } of CASES) {
  t.test(`${target}: each goes once, and counts once`, { buffered: true }, async (t) => {
    for (const failpoint of failpoints) {
      const ids = await make()
      const run = aRun(target, { rules: [{ after, action: 'purge' }] })
      const { storeFolder } = storage
      const first = await startRetention(t, { databaseUrl: database.url, storeFolder, run, failpoint })
      t.equal(await first.ended, 'SIGKILL', `killed at ${failpoint}: ${first.output().slice(-1000)}`)
      // As if the leases of the dead were over.
      await admin.query(`update ${table} set lease_at = now()`)
      t.match(await here(run), { purged: 3, due: 3, failures: 0, ended: 'Finished' }, failpoint)
      t.strictSame(await Promise.all(ids.map(isGone)), [true, true, true])
    }
  })
}
