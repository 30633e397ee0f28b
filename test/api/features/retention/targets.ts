import t from 'tap'
import { sql } from '../../../../api/db/orm.ts'
import { boundPieces, measurePieces, unusedPieces } from '../../../../api/features/highlights/pieces/pieces.ts'
import { purgeHighlights } from '../../../../api/features/highlights/render/purge.ts'
import { expireSessions } from '../../../../api/features/media/uploads/release.ts'
import { expiredUploads } from '../../../../api/features/media/uploads/retention-target.ts'
import { deleteOldNotifications } from '../../../../api/features/notifications/queries.ts'
import { oldNotifications } from '../../../../api/features/notifications/retention-target.ts'
import { addHold } from '../../../../api/features/retention/holds.ts'
import { carryOut } from '../../../../api/features/retention/run.ts'
import { findUsage } from '../../../../api/features/users/queries.ts'
import { cutoffOf } from '../../../../api/retention/policies-queries.ts'
import type { RetentionTarget } from '../../../../api/retention/target.ts'
import { RETENTION_TARGETS, type RetentionTarget as TargetName } from '../../../../crds/retention-rules.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { highlightPrefix } from '../../../../lib/contract/object-keys.ts'
import type { RetentionRun } from '../../../../lib/contract/retention.ts'
import { startConversionTest } from '../../../support/conversion-world.ts'
import { eventually } from '../../../support/eventually.ts'
import { aHighlightManifest } from '../../../support/highlights.ts'
import { waitingIn } from '../../../support/in-turn.ts'
import { aRun } from '../../../support/retention.ts'
import { retentionItems } from '../../../support/retention-items.ts'

/** Runs for the targets that are smaller than the trash; what all have in common is tested with that. */
const { database, place, world, base } = await startConversionTest(t)
const { admin, worker: db } = database
const { store } = place
const { org, user } = world
const deps = { db, store, log: base.log, signal: new AbortController().signal, waitMs: 5, pauseMs: () => 1 }
const { signal } = deps
const { anUpload, isStored, aNotification, aSource, hasPieces } = retentionItems({ admin, store }, world)

const carry = (target: RetentionTarget, after: string, change: Partial<RetentionRun> = {}) =>
  carryOut(deps, target, aRun(target.name, { rules: [{ after, action: 'purge' }], ...change }))
const policy = (target: string, after: string) =>
  admin.query(
    `insert into retention_policies (target, name, uid, rules, purge_after, suspended, dry_run)
      values ($1, 'p', 'u', '[]', $2::interval, false, false)`,
    [target, after],
  )
const hold = () => addHold(db, { kind: 'organization', subject: org, reason: 'case', placedBy: 'court' })
const count = async (text: string, values: unknown[] = []) => (await admin.query(text, values)).rowCount

t.beforeEach(async () => {
  for (const table of [
    'uploads',
    'notifications',
    'highlights',
    'media',
    'retention_runs',
    'retention_policies',
    'legal_holds',
  ]) {
    await admin.query(`delete from ${table}`)
  }
})

t.test(
  'every target: without a policy the default counts, with one its purge, without a purge nothing is ever over',
  async (t) => {
    const due = { at: '2026-06-30T12:00:00Z', rules: [{ after: 'P1D', action: 'purge' as const }] }
    const cutoff = async (target: TargetName) => {
      const { rows } = await db.read({}, (tx) =>
        tx.execute<{
          at: string
        }>(sql`select to_char(${cutoffOf(due, target, 'P10D')} at time zone 'UTC', 'YYYY-MM-DD') as at,
        ${cutoffOf(due, target, 'P10D')} = '-infinity' as never`),
      )
      return rows[0]
    }
    for (const target of RETENTION_TARGETS) {
      await admin.query('delete from retention_policies')
      t.match(await cutoff(target), { at: '2026-06-20', never: false }, target)
      await policy(target, 'P20D')
      t.match(await cutoff(target), { at: '2026-06-10', never: false })
      await policy(target === 'Uploads' ? 'AuditLog' : 'Uploads', 'P1D')
      await admin.query('update retention_policies set purge_after = null where target = $1', [target])
      t.match(await cutoff(target), { never: true })
    }
  },
)

// ---------------------------------------------------------------- uploads

const stateOf = async (id: Uuid) => (await admin.query('select state from uploads where id = $1', [id])).rows[0]?.state

t.test(
  'uploads: sessions that were left and ended ones are removed from the store, not those that go on',
  async (t) => {
    const [open, left, aborted] = [
      await anUpload('open', '1 hour'),
      await anUpload('open', '25 hours'),
      await anUpload('aborted', '1 hour'),
    ]
    const results = await Promise.all([1, 2].map(() => carry(expiredUploads, 'P1D', { run: 'one' })))
    t.match(results.at(-1), { purged: 2, bytes: 10, due: 2, ended: 'Finished' })
    t.strictSame([await isStored(open), await isStored(left), await isStored(aborted)], [true, false, false])
    t.strictSame([await stateOf(open), await stateOf(left), await stateOf(aborted)], ['open', 'expired', 'aborted'])
    t.match(await carry(expiredUploads, 'P1D'), { purged: 0, due: 0 })
  },
)

t.test('uploads: a longer policy keeps what was left, and a hold keeps all', async (t) => {
  const [left, aborted] = [await anUpload('open', '2 days'), await anUpload('aborted', '1 hour')]
  await policy('Uploads', 'P5D')
  t.match(await carry(expiredUploads, 'P5D', { dryRun: true }), { purged: 1, bytes: 5 })
  t.match(await carry(expiredUploads, 'P5D'), { purged: 1 })
  t.ok(await isStored(left))
  t.notOk(await isStored(aborted))
  await hold()
  await admin.query('delete from retention_policies')
  t.match(await carry(expiredUploads, 'P1D'), { purged: 0, reason: '1 due item is kept by legal holds' })
  t.ok(await isStored(left))
})

// ---------------------------------------------------------------- notifications

t.test('notifications: old ones go, except those of an event that is to come, and under a hold', async (t) => {
  for (let i = 0; i < 3; i++) await aNotification('91 days')
  const [needed, young] = [await aNotification('91 days', `now() + interval '1 day'`), await aNotification('89 days')]
  const kept = await hold()
  t.match(await carry(oldNotifications, 'P90D'), { purged: 0, reason: '3 due items are kept by legal holds' })
  await admin.query('delete from legal_holds where id = $1', [kept.id])
  await admin.query('update notifications set lease_at = now()')
  const results = await Promise.all([1, 2].map(() => carry(oldNotifications, 'P90D', { run: 'n', batchSize: 2 })))
  t.match(results.at(-1), { purged: 3, due: 3, ended: 'Finished' })
  const { rows } = await admin.query('select id from notifications order by created_at')
  t.strictSame(
    rows.map(({ id }) => id),
    [needed, young],
  )
})

t.test('notifications: no policy removes what the stream may still repeat', async (t) => {
  await aNotification('7 days')
  await aNotification('9 days')
  await policy('Notifications', 'P1D')
  t.match(await carry(oldNotifications, 'P1D'), { purged: 1 })
})

// ---------------------------------------------------------------- pieces of highlights

async function aHighlight(...sources: Uuid[]): Promise<Uuid> {
  const id = newUuid()
  await admin.query(
    `insert into highlights (id, org_id, created_by, title, transition, orientation, fill, ken_burns, show_title, captions,
        skip_broken, estimated_duration_sec) values ($1, $2, $3, 'H', 'cut', 'auto', 'blur', true, true, 'none', false, 3)`,
    [id, org, user],
  )
  for (const [position, source] of sources.entries()) {
    await admin.query(
      `insert into highlight_items (highlight_id, position, org_id, media_id, source_id, uploader_id, type, seconds, caption)
        values ($1, $2, $3, $4, $4, $5, 'video', 3, '')`,
      [id, position, org, source, user],
    )
  }
  await admin.query('update highlights set render_admitted_at = now() where id = $1', [id])
  return id
}
const complete = (id: Uuid, sources: Uuid[]) =>
  admin.query(`update highlights set status = 'completed', manifest = $2 where id = $1`, [
    id,
    aHighlightManifest(
      formatId('highlight', id),
      sources.map((source) => formatId('media', source)),
    ),
  ])
const stored = async () =>
  (await admin.query('select highlight_bytes::int, piece_bytes::int from user_storage where user_id = $1', [user]))
    .rows[0]
t.test(
  'what a highlight and its pieces take counts for the one who made it, and no longer when it is gone',
  async (t) => {
    const sources = [await aSource(100), await aSource(50)]
    const id = await aHighlight(...sources)
    t.equal(await measurePieces(deps, signal), 2)
    t.strictSame(await stored(), { highlight_bytes: 0, piece_bytes: 150 })
    await complete(id, sources)
    const { hls, images } = aHighlightManifest('x', [])
    const film =
      hls.renditions.reduce((sum, { bytes }) => sum + bytes, 0) + (images?.webp.bytes ?? 0) + (images?.thumb.bytes ?? 0)
    t.ok(film > 0)
    t.strictSame(await stored(), { highlight_bytes: film, piece_bytes: 150 })
    t.equal(await measurePieces(deps, signal), 2, 'its end may have changed them')
    t.equal(await measurePieces(deps, signal), 0)
    await admin.query('update highlights set deleted_at = now(), deleted_by = created_by where id = $1', [id])
    t.strictSame(await stored(), { highlight_bytes: 0, piece_bytes: 150 })
    await admin.query('delete from media where id = $1', [sources[0]])
    t.strictSame(await stored(), { highlight_bytes: 0, piece_bytes: 50 })
  },
)

t.test('the same storage is what a person is told of', async (t) => {
  const id = await aSource(70)
  await aHighlight(id)
  await measurePieces(deps, signal)
  t.match(await database.db.read({ user }, (tx) => findUsage(tx, user)), { storedBytes: 70 })
})

t.test('pieces that no highlight has used for a while go, others stay', async (t) => {
  const [old, used] = [await aSource(100), await aSource(50)]
  await aHighlight(old, used)
  await measurePieces(deps, signal)
  await admin.query(`update media_pieces set used_at = now() - interval '31 days' where media_id = $1`, [old])
  t.match(await carry(unusedPieces, 'P30D', { dryRun: true }), { purged: 1, bytes: 100 })
  await hold()
  t.match(await carry(unusedPieces, 'P30D'), { purged: 0, reason: '1 due item is kept by legal holds' })
  await admin.query('delete from legal_holds; update media_pieces set lease_at = now()')
  t.match(await carry(unusedPieces, 'P30D'), { purged: 1, bytes: 100, ended: 'Finished' })
  t.strictSame([await hasPieces(old), await hasPieces(used)], [false, true])
  t.match(await stored(), { piece_bytes: 50 })
})

t.test(
  'pieces that a highlight takes up while they are deleted stay in the table, and are measured again',
  async (t) => {
    const id = await aSource(100)
    await aHighlight(id)
    await measurePieces(deps, signal)
    await admin.query(`update media_pieces set used_at = now() - interval '31 days'`)
    const busy = {
      ...store,
      async deletePrefix(prefix: string) {
        await aHighlight(id)
        return store.deletePrefix(prefix)
      },
    }
    const result = await carryOut({ ...deps, store: busy }, unusedPieces, aRun('PieceCache'))
    t.match(result, { purged: 0, failures: 0 })
    t.equal(await count('select from media_pieces where measured_at is null'), 1)
  },
)

t.test('beyond a bound those go that were not used for longest, of each organization and of all', async (t) => {
  const sources: Uuid[] = []
  for (let i = 0; i < 4; i++) {
    const id = await aSource(100)
    sources.push(id)
    await aHighlight(id)
  }
  await measurePieces(deps, signal)
  for (const [i, id] of sources.entries()) {
    await admin.query(`update media_pieces set used_at = now() - make_interval(hours => $2) where media_id = $1`, [
      id,
      i,
    ])
  }
  t.equal(await boundPieces(deps, { organization: 400, all: 400 }, signal), 0)
  t.equal(await boundPieces(deps, { organization: 350, all: 10_000 }, signal), 1)
  t.equal(await boundPieces(deps, { organization: 10_000, all: 100 }, signal), 2)
  t.strictSame(await Promise.all(sources.map(hasPieces)), [true, false, false, false])
})

// ---------------------------------------------------------------- the sweep, and holds

/** Does the work while a hold is about to commit: what is purged for good waits for it. */
async function whileHoldComes(work: () => Promise<unknown>): Promise<void> {
  const holder = await admin.connect()
  try {
    await holder.query('begin')
    await holder.query('select pg_advisory_xact_lock(7305811243)')
    await holder.query(
      `insert into legal_holds (id, kind, subject, reason, placed_by) values ($1, 'organization', $2, 'case', 'court')`,
      [newUuid(), org],
    )
    let isOver = false
    const done = work().finally(() => {
      isOver = true
    })
    await eventually('it to wait or end', async () => isOver || (await waitingIn(database)) > 0)
    await holder.query('commit')
    await done
  } finally {
    await holder.query('rollback')
    holder.release()
  }
}

t.test('the sweep of notifications sees a hold that commits meanwhile', async (t) => {
  await aNotification('91 days')
  await whileHoldComes(() => db.inTransaction({}, (tx) => deleteOldNotifications(tx, 90, 10)))
  t.equal(await count('select from notifications'), 1)
  await admin.query('delete from legal_holds')
  t.equal(await db.inTransaction({}, (tx) => deleteOldNotifications(tx, 90, 10)), 1)
})

t.test('the sweep of uploads keeps the row of what a hold came for, and begins with no other', async (t) => {
  const both = [await anUpload('aborted', '1 hour'), await anUpload('aborted', '1 hour')]
  let held: Promise<unknown> | undefined
  const holding = {
    ...store,
    async deletePrefix(prefix: string) {
      const deleted = await store.deletePrefix(prefix)
      held ??= hold()
      await held
      return deleted
    },
  }
  await expireSessions(db, holding, { log: base.log })
  t.equal(await count('select from uploads where storage_released_at is not null'), 0)
  t.equal((await Promise.all(both.map(isStored))).filter(Boolean).length, 1, 'the next one was not begun')
  await admin.query('delete from legal_holds')
  await expireSessions(db, store, { log: base.log })
  t.equal(await count('select from uploads where storage_released_at is not null'), 2)
})

/** A deleted highlight with a film in the store, whose purge is due. */
async function aFilm(by: Uuid, o: { looks?: number; album?: Uuid } = {}): Promise<Uuid> {
  const id = newUuid()
  await admin.query(
    `insert into highlights (id, org_id, created_by, album_id, title, transition, orientation, fill, ken_burns, show_title, captions,
        skip_broken, estimated_duration_sec, status, deleted_at, deleted_by, purge_at, purge_looks)
      values ($1, $2, $3, $4, 'H', 'cut', 'auto', 'blur', true, true, 'none', false, 3, 'completed', now(), $3, now(), $5)`,
    [id, org, by, o.album ?? null, o.looks ?? 0],
  )
  await store.put(`${highlightPrefix(org, id)}film.mp4`, 'film', { contentType: 'video/mp4' })
  return id
}
const hasFilm = async (id: Uuid) => {
  for await (const _ of store.list(highlightPrefix(org, id))) return true
  return false
}

t.test('films: a hold on who made them, the organization or the event keeps files and rows', async (t) => {
  const [event, album, other] = [newUuid(), newUuid(), newUuid()]
  await admin.query('insert into users (id, issuer, subject) values ($1::uuid, $2, $1::text)', [other, 'test'])
  await admin.query(
    `insert into events (id, org_id, owner_id, title, start_at, status) values ($1, $2, $3, 'E', now(), 'active')`,
    [event, org, user],
  )
  await admin.query(`insert into albums (id, org_id, owner_id, event_id, title) values ($1, $2, $3, $4, 'A')`, [
    album,
    org,
    user,
    event,
  ])
  for (const [kind, subject, keeps] of [
    ['person', user, [true, true, false]],
    ['event', event, [false, true, false]],
    ['organization', org, [true, true, true]],
  ] as const) {
    await admin.query('delete from highlights')
    const films = [await aFilm(user), await aFilm(user, { album }), await aFilm(other)]
    const placed = await addHold(db, { kind, subject, reason: 'case', placedBy: 'court' })
    await purgeHighlights(base)
    t.strictSame(await Promise.all(films.map(hasFilm)), keeps, kind)
    await admin.query('delete from legal_holds where id = $1', [placed.id])
    await purgeHighlights(base)
    t.strictSame(await Promise.all(films.map(hasFilm)), [false, false, false], 'its end lets them go')
  }
})

t.test('films: a hold that comes with the last look keeps the row', async (t) => {
  const id = await aFilm(user, { looks: 9 })
  await store.deletePrefix(highlightPrefix(org, id))
  await whileHoldComes(() => purgeHighlights(base))
  t.equal(await count('select from highlights where id = $1', [id]), 1)
  await admin.query('delete from legal_holds')
  await admin.query('update highlights set purge_lease_until = null')
  await purgeHighlights(base)
  t.equal(await count('select from highlights where id = $1', [id]), 0)
})
