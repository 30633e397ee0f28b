import { setTimeout as sleep } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { LATEST } from '../../../../api/audit/anchors.ts'
import { noticeRestore } from '../../../../api/audit/restores.ts'
import { findMediaOrTrash, listTrash } from '../../../../api/features/media/deletion/queries.ts'
import { mediaTrash } from '../../../../api/features/media/deletion/trash-target.ts'
import { addHold, releaseHold } from '../../../../api/features/retention/holds.ts'
import { exitOf } from '../../../../api/features/retention/plan.ts'
import { carryOut } from '../../../../api/features/retention/run.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { EXIT } from '../../../../lib/contract/job-result.ts'
import { mediaPrefix } from '../../../../lib/contract/object-keys.ts'
import type { RetentionRun } from '../../../../lib/contract/retention.ts'
import { type ObjectStore, StoreError } from '../../../../lib/runtime/object-store/object-store.ts'
import { startConversionTest } from '../../../support/conversion-world.ts'
import { aRun, shiftClock } from '../../../support/retention.ts'
import { retentionItems } from '../../../support/retention-items.ts'

/** A run of a policy for the trash: guards, holds, errors, several processes; the purge itself is tested in media/purge.ts. */
const { database, place, world, base } = await startConversionTest(t)
const { admin, worker: db } = database
const { store } = place
const { org, user } = world
const { trashed } = retentionItems({ admin, store }, world)
const deps = { db, store, log: base.log, signal: new AbortController().signal, waitMs: 5, pauseMs: () => 1 }

const carry = (change: Partial<RetentionRun> = {}, more: object = {}) =>
  carryOut({ ...deps, ...more }, mediaTrash, aRun('MediaTrash', change))
const rows = async (ids: readonly Uuid[]) =>
  (await admin.query('select from media where id = any($1)', [ids])).rowCount ?? 0
const keysBelow = async (id: Uuid) => {
  const keys: string[] = []
  for await (const { key } of store.list(mediaPrefix(org, id))) keys.push(key)
  return keys
}
const purges = async (id: Uuid) =>
  (await admin.query(`select from audit_log where resource_id = $1 and details ->> 'operation' = 'purge'`, [id]))
    .rowCount
async function isPurgedOnce(t: Test, id: Uuid) {
  t.equal(await rows([id]), 0, 'no row')
  t.strictSame(await keysBelow(id), [], 'no object')
  t.equal(await world.count(id, 'MediaPurged'), 1, 'one event')
  t.equal(await purges(id), 1, 'one audit entry')
}

t.beforeEach(async () => {
  for (const table of ['media', 'retention_runs', 'retention_policies', 'legal_holds'])
    await admin.query(`delete from ${table}`)
})

t.test('a run purges what is due, and says how many, and how many bytes the store had', async (t) => {
  const [due = '', early = ''] = [...(await trashed()), ...(await trashed(1, '29 days'))]
  let bytes = 0
  for await (const { size } of store.list(mediaPrefix(org, due))) bytes += size
  const result = await carry()
  t.match(result, { purged: 1, moved: 0, bytes, failures: 0, due: 1, ended: 'Finished', errors: [], reason: undefined })
  await isPurgedOnce(t, due)
  t.equal(await rows([early]), 1)
})

t.test('neither before its own rule nor before the one that people are told is anything purged', async (t) => {
  const [id = ''] = await trashed(1, '20 days')
  const rules: RetentionRun['rules'] = [{ after: 'P10D', action: 'purge' }]
  t.equal((await carry({ rules })).purged, 0, 'the API says 30 days without a policy')
  await admin.query(`insert into retention_policies (target, name, uid, rules, purge_after, suspended, dry_run)
    values ('MediaTrash', 'p', 'u', '[]', 'P25D', false, false)`)
  t.equal((await carry({ rules })).purged, 0, 'the policy was changed while the run was on its way')
  await admin.query(`update retention_policies set purge_after = 'P10D'`)
  t.equal((await carry()).purged, 0, 'an older run has the longer rule')
  t.equal((await carry({ rules })).purged, 1)
  await isPurgedOnce(t, id)
})

t.test(
  'a policy in force without a purge keeps all, whatever rule a run still has, and what it keeps can be restored',
  async (t) => {
    const [id = ''] = await trashed(1, '20 years')
    await admin.query(`insert into retention_policies (target, name, uid, rules, purge_after, suspended, dry_run)
    values ('MediaTrash', 'p', 'u', '[]', null, false, false)`)
    t.match(await carry({ confirmed: true }), { purged: 0, due: 0, ended: 'Finished' })
    t.equal(await rows([id]), 1)
    const seen = await db.read({}, (tx) => findMediaOrTrash(tx, org, id))
    t.match(seen, { id, isPastRestore: false })
    const listed = await db.read({}, (tx) => listTrash(tx, { orgId: org, of: undefined, after: undefined, limit: 9 }))
    t.strictSame(
      listed.map((row) => row.id),
      [id],
    )
  },
)

t.test('several processes of a run purge each item once, and the figures are those of the run', async (t) => {
  const ids = await trashed(24)
  await admin.query(
    `update media set kind = 'image', paired_media_id = case when id = $1::uuid then $2::uuid else $1::uuid end where id in ($1, $2)`,
    ids.slice(0, 2),
  )
  await admin.query(`update media set kind = 'video' where id = $1`, [ids[1]])
  const run = aRun('MediaTrash', { batchSize: 3 })
  const results = await Promise.all([1, 2, 3].map(() => carryOut(deps, mediaTrash, run)))
  for (const id of ids) await isPurgedOnce(t, id)
  t.match(results.at(-1), { due: 24 })
  t.equal(Math.max(...results.map(({ purged }) => purged)), 24)
})

t.test('what a peer has leased is waited for, and purged when it dies', async (t) => {
  const [id = ''] = await trashed()
  await admin.query(`update media set lease_at = now() + interval '0.3 s', lease_token = $1 where id = $2`, [
    newUuid(),
    id,
  ])
  t.match(await carry(), { purged: 1, ended: 'Finished' })
})

t.test('a lease that ended is no right any more: a late process changes nothing', async (t) => {
  const [id = ''] = await trashed()
  let peer: Promise<unknown> | undefined
  const slow: ObjectStore = {
    ...store,
    async deletePrefix(prefix) {
      if (!peer) {
        await admin.query('update media set lease_at = now()')
        peer = carry()
        await peer
      }
      return store.deletePrefix(prefix)
    },
  }
  t.match(await carry({}, { store: slow }), { purged: 0 })
  t.match(await peer, { purged: 1 })
  await isPurgedOnce(t, id)
})

t.test('a process whose lease is another one’s by now leaves the row to that', async (t) => {
  const [id = ''] = await trashed()
  const stop = new AbortController()
  const slow: ObjectStore = {
    ...store,
    async deletePrefix(prefix) {
      await admin.query('update media set lease_token = gen_random_uuid()')
      stop.abort()
      return store.deletePrefix(prefix)
    },
  }
  t.match(await carry({}, { store: slow, signal: stop.signal }), { purged: 0, ended: 'Stopped' })
  t.equal(await rows([id]), 1)
  t.equal(await purges(id), 0)
})

t.test('an item that cannot be purged is an error of its own, once for each run', async (t) => {
  const [stuck = '', fine = ''] = await trashed(2)
  const broken: ObjectStore = {
    ...store,
    deletePrefix: (prefix) =>
      prefix.includes(stuck) ? Promise.reject(new Error('no such luck')) : store.deletePrefix(prefix),
  }
  const result = await carry({}, { store: broken })
  t.match(result, { purged: 1, failures: 1, ended: 'Finished' })
  t.strictSame(result.errors, [{ id: formatId('media', stuck), code: 'Failed', message: 'no such luck' }])
  await isPurgedOnce(t, fine)
  t.match(await carry(), { purged: 0, ended: 'Finished' }, 'another run does not wait for it')
  await admin.query('update media set lease_at = now()')
  t.match(await carry(), { purged: 1 })
})

t.test('an item that is locked in the store is left alone until the lock ends', async (t) => {
  const [id = ''] = await trashed()
  const until = new Date(Date.now() + 40 * 86_400_000)
  const locked = new StoreError('Locked', 'retained', { until })
  const result = await carry({}, { store: { ...store, deletePrefix: () => Promise.reject(locked) } })
  t.match(result.errors, [{ id: formatId('media', id), code: 'Locked' }])
  const [row] = (await admin.query('select lease_at from media where id = $1', [id])).rows
  t.equal(row.lease_at.getTime(), until.getTime())
})

t.test('a store that is away ends the run, and nothing counts as failed', async (t) => {
  const ids = await trashed(3)
  const away = () => Promise.reject(new StoreError('Unavailable', 'SlowDown'))
  const result = await carry({}, { store: { ...store, deletePrefix: away, check: away } })
  t.match(result, { ended: 'StoreUnavailable', purged: 0, failures: 0, errors: [] })
  t.match(await carry(), { ended: 'Finished', purged: 3 }, 'the leases were given back')
  for (const id of ids) await isPurgedOnce(t, id)
})

t.test('a store that asks for fewer requests is asked by fewer at once, and no item counts as failed', async (t) => {
  const ids = await trashed(8)
  let busy = 0
  let refused = 0
  const busiest = { before: 0, after: 0 }
  const slow: ObjectStore = {
    ...store,
    async deletePrefix(prefix) {
      busy += 1
      const when = refused < 4 ? 'before' : 'after'
      busiest[when] = Math.max(busiest[when], busy)
      // Time for the others to come, also on a slow machine.
      const others = { before: 4, after: 2 }
      for (let n = 0; n < 500 && busiest[when] < others[when]; n++) await sleep(20)
      await sleep(20)
      busy -= 1
      if (refused >= 4) return store.deletePrefix(prefix)
      refused += 1
      throw new StoreError('Unavailable', 'SlowDown', { isSlowDown: true })
    },
  }
  t.match(await carry({}, { store: slow }), { ended: 'Finished', purged: 8, failures: 0, errors: [] })
  t.strictSame(busiest, { before: 4, after: 2 })
  for (const id of ids) await isPurgedOnce(t, id)
})

t.test(
  'a dry run by a wrong clock does not answer for the next run, nor does a confirmed one once the clock is right',
  async (t) => {
    t.teardown(() => shiftClock(admin, '0'))
    t.equal((await carry({ run: 'before' })).ended, 'Finished')
    const [id = ''] = await trashed(1, '1 day')
    await shiftClock(admin, '100 years')
    t.equal((await carry({ run: 'dry', dryRun: true })).due, 1)
    t.match(await carry({ run: 'after-dry' }), { ended: 'ConfirmationRequired', purged: 0 })
    await admin.query('update media set deleted_at = null, deleted_by = null where id = $1', [id])
    t.equal((await carry({ run: 'confirmed', confirmed: true })).ended, 'Finished')
    await shiftClock(admin, '0')
    t.equal((await carry({ run: 'right-again' })).ended, 'Finished')
    await trashed(1, '1 day')
    await shiftClock(admin, '20 years')
    t.match(await carry({ run: 'jumped-again' }), { ended: 'ConfirmationRequired', purged: 0 })
  },
)

t.test('items that the store refuses do not stop the others', async (t) => {
  const bad = new Set((await trashed(12, '50 days')).map((id) => mediaPrefix(org, id)))
  const good = await trashed(8)
  const denied: ObjectStore = {
    ...store,
    check: () => Promise.resolve(),
    deletePrefix: (prefix) =>
      bad.has(prefix) ? Promise.reject(new StoreError('Unavailable', 'AccessDenied')) : store.deletePrefix(prefix),
  }
  t.match(await carry({ batchSize: 4 }, { store: denied }), { ended: 'Finished', purged: 8, failures: 12 })
  t.equal(await rows(good), 0)
  t.match(await carry({ batchSize: 4 }, { store: denied }), { ended: 'Finished', failures: 0 }, 'they wait')
})

t.test('a store that allows no deletion at all ends the run', async (t) => {
  const ids = await trashed(1)
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes,
      deleted_at, deleted_by)
    select gen_random_uuid(), $1, $2, 'f', 'video/mp4', 'video', 7, now() - interval '40 days', $2
    from generate_series(1, 200)`,
    [org, user],
  )
  const denied: ObjectStore = {
    ...store,
    check: () => Promise.resolve(),
    deletePrefix: () => Promise.reject(new StoreError('Unavailable', 'AccessDenied')),
  }
  const { ended, purged, failures } = await carry({}, { store: denied, pauseMs: () => 0 })
  t.match({ ended, purged }, { ended: 'StoreUnavailable', purged: 0 })
  t.ok(failures >= 100 && failures < 110, `${failures} failed`)
  t.equal(await rows(ids), 1)
})

t.test('a run waits for no lease of another kind of work', async (t) => {
  const [early = ''] = await trashed(1, '1 day')
  // In the trash for long, and taken out of it by the purge of an event.
  const [leaving = ''] = await trashed(1, '31 days')
  const event = newUuid()
  await admin.query(
    `insert into events (id, org_id, owner_id, title, start_at, status, archived_at)
      values ($1, $2, $3, 'Party', now(), 'archived', now() - interval '8 years')`,
    [event, org, user],
  )
  t.teardown(() => admin.query('delete from events where id = $1', [event]))
  await admin.query(
    `update media set purging_at = now(), lease_at = now() + interval '1 hour', lease_token = $2,
      leaving_with = case when id = $3 then $4::uuid end where id = any($1)`,
    [[early, leaving], newUuid(), leaving, event],
  )
  t.match(await carry(), { ended: 'Finished', purged: 0 })
  t.equal(await rows([early, leaving]), 2)
})

t.test('what is held is written once a day, not by every run', async (t) => {
  const ids = await trashed(3)
  await addHold(db, { kind: 'organization', subject: org, reason: 'r', placedBy: 'b' })
  const versions = async () =>
    (await admin.query('select xmin::text from media where id = any($1) order by id', [ids])).rows.map((r) => r.xmin)
  t.match(await carry(), { ended: 'Finished', purged: 0 })
  const before = await versions()
  t.match(await carry(), { ended: 'Finished', purged: 0, reason: /3 due items are kept/ })
  t.strictSame(await versions(), before)
})

t.test('a process that is told to end finishes what it has begun and gives back the rest', async (t) => {
  const ids = await trashed(12)
  const stop = new AbortController()
  const stopping: ObjectStore = {
    ...store,
    deletePrefix: (prefix) => {
      stop.abort()
      return store.deletePrefix(prefix)
    },
  }
  const result = await carry({}, { store: stopping, signal: stop.signal })
  t.equal(result.ended, 'Stopped')
  t.ok(result.purged > 0 && result.purged < 12)
  t.equal(await rows(ids), 12 - result.purged)
  t.equal((await admin.query('select from media where lease_token is not null')).rowCount, 0)
})

t.test('a run goes on after one of its processes was told to end', async (t) => {
  const ids = await trashed(12)
  for (const dryRun of [true, false]) {
    const stop = new AbortController()
    const stopping: ObjectStore = {
      ...store,
      put: (...args) => {
        stop.abort()
        return store.put(...args)
      },
      deletePrefix: (prefix) => {
        stop.abort()
        return store.deletePrefix(prefix)
      },
    }
    const run = { run: `goes-on-${dryRun}`, dryRun, confirmed: true, confirmedDue: 12 }
    t.equal((await carry(run, { store: stopping, signal: stop.signal })).ended, 'Stopped')
    t.match(await carry(run), { ended: 'Finished', purged: 12, due: 12 })
  }
  t.equal(await rows(ids), 0)
})

t.test('what a process says that was told to end replaces no other end', async (t) => {
  await trashed(3)
  const run = { run: 'closed', until: new Date().toISOString() }
  t.equal((await carry(run)).ended, 'WindowClosed')
  t.equal((await carry(run, { signal: AbortSignal.abort() })).ended, 'WindowClosed')
})

t.test('a process that hangs gives up and says so; one that waits for its turn does not hang', async (t) => {
  const [stuck = ''] = await trashed(3)
  const stallMs = 2000
  const hanging: ObjectStore = {
    ...store,
    deletePrefix: (prefix) => (prefix.includes(stuck) ? new Promise(() => {}) : store.deletePrefix(prefix)),
  }
  const result = await carry({ run: 'hangs' }, { store: hanging, stallMs, leaseSeconds: 1 })
  t.match(result, {
    ended: 'Stopped',
    purged: 2,
    due: 3,
    reason: /^A process ended because nothing had come to an end/,
  })
  await admin.query('update media set lease_at = now()')
  const next = await carry({ run: 'hangs' })
  t.match(next, { ended: 'Finished', purged: 3, reason: undefined })

  await trashed(2)
  // The second of them waits for twice as long.
  const bytesPerSecond = Math.round(next.bytes / 3 / ((2 * stallMs) / 1000))
  t.match(await carry({ bytesPerSecond }, { stallMs }), { ended: 'Finished', purged: 2 })
})

t.test('a database that was restored loses nothing until its worker has started', async (t) => {
  const ids = await trashed(2)
  const latest = JSON.stringify({ timeline: 1, sealed: 1_000_000, at: new Date().toISOString() })
  await store.put(LATEST, latest, { contentType: 'application/json' })
  const refused = await carry({ run: 'restored' })
  t.match(refused, { ended: 'Stopped', purged: 0, reason: /^The database was restored to an earlier time/ })
  t.equal(exitOf(refused, { aborted: false }), EXIT.transient, 'the Job makes another process')
  t.equal(await rows(ids), 2)

  const away: ObjectStore = { ...store, get: () => Promise.reject(new StoreError('Unavailable', 'away')) }
  const unknown = { ended: 'Stopped', purged: 0, reason: 'The database cannot be compared with the object store: away' }
  t.match(await carry({ run: 'restored' }, { store: away }), unknown, 'nor while that is not known')
  t.equal(await rows(ids), 2)

  // What the worker does when it starts.
  await noticeRestore({ db, store })
  t.match(await carry({ run: 'restored' }), { ended: 'Finished', purged: 2, reason: undefined }, 'the same run goes on')
})

t.test('no lease is taken after the end of the window', async (t) => {
  await trashed()
  t.match(await carry({ until: new Date().toISOString() }), { ended: 'WindowClosed', purged: 0 })
})

t.test('bytes pass at the pace of the policy', async (t) => {
  await trashed(3)
  const startedAt = performance.now()
  const { bytes } = await carry({ bytesPerSecond: 2000 })
  // The first item passes at once, and the others wait for those before them.
  t.ok(performance.now() - startedAt >= (bytes / 3 / 2000) * 1000, 'it took its time')
})

// ---------------------------------------------------------------- guards

t.test('a clock of the database that jumps a century ahead purges nothing', async (t) => {
  const ids = [...(await trashed(2, '1 day')), ...(await trashed(1))]
  t.match(await carry(), { purged: 1 })
  await shiftClock(admin, '100 years')
  const refused = await carry()
  t.match(refused, { ended: 'ConfirmationRequired', purged: 0, due: 2, reason: /2 are due, and the last run was 365/ })
  t.equal(await rows(ids), 2)
  t.match(await carry(), { ended: 'ConfirmationRequired' }, 'a refused run is no run to compare with')
  await trashed(12, '1 day')
  const grown = await carry({ confirmed: true, confirmedDue: 2 })
  t.match(grown, { ended: 'ConfirmationRequired', purged: 0, due: 14, reason: /14 are due, and 2 were confirmed/ })
  t.match(await carry({ confirmed: true, confirmedDue: 14 }), { ended: 'Finished', purged: 14 })
  await shiftClock(admin, '0')
})

t.test('so many at once need a confirmation, and a dry run none', async (t) => {
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, deleted_at, deleted_by)
      select gen_random_uuid(), $1, $2, 'f', 'video/mp4', 'video', 7, now() - interval '40 days', $2 from generate_series(1, 1001)`,
    [org, user],
  )
  const refused = await carry()
  t.match(refused, { ended: 'ConfirmationRequired', due: 1001, reason: /1001 of 1001 .* maxDuePercent \(20\)/ })
  const dry = await carry({ dryRun: true })
  t.match(dry, { ended: 'Finished', purged: 1001, bytes: 7007, due: 1001 })
  t.equal((await admin.query('select from media')).rowCount, 1001)
  t.match(await carry({ maxDuePercent: 100 }), { purged: 1001, ended: 'Finished' })
})

t.test('a dry run changes nothing and lists what a run would do', async (t) => {
  const ids = await trashed(3)
  await addHold(db, { kind: 'organization', subject: org, reason: 'case 1', placedBy: 'court' })
  const before = (await admin.query('select * from media order by id')).rows
  const held = await carry({ dryRun: true })
  t.match(held, { purged: 0, due: 0, reason: '3 due items are kept by legal holds' })
  await admin.query('delete from legal_holds')
  const results = await Promise.all(
    [1, 2].map(() => carryOut(deps, mediaTrash, aRun('MediaTrash', { dryRun: true, run: 'dry' }))),
  )
  for (const result of results)
    t.match(result, { purged: 3, ended: 'Finished', report: 'retention/reports/dry.jsonl.gz' })
  t.strictSame((await admin.query('select * from media order by id')).rows, before)
  const { body } = await store.get('retention/reports/dry.jsonl.gz')
  const text = gunzipSync(Buffer.concat(await body.toArray())).toString()
  const lines = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.strictSame(new Set(lines.map(({ id }) => id)), new Set(ids.map((id) => formatId('media', id))))
  t.match(lines[0], { action: 'purge', bytes: 5, held: false, since: /^\d{4}-.*Z$/ })
})

// ---------------------------------------------------------------- holds

for (const kind of ['person', 'organization', 'event'] as const) {
  t.test(
    `a hold on ${kind === 'organization' ? 'an' : 'a'} ${kind} keeps what is due, and its end lets it go`,
    async (t) => {
      const [id = ''] = await trashed()
      const event = newUuid()
      await admin.query(`insert into events (id, org_id, owner_id, title, start_at) values ($1, $2, $3, 'E', now())`, [
        event,
        org,
        user,
      ])
      const album = newUuid()
      await admin.query(`insert into albums (id, org_id, owner_id, event_id, title) values ($1, $2, $3, $4, 'A')`, [
        album,
        org,
        user,
        event,
      ])
      await admin.query(
        `insert into album_media (album_id, media_id, org_id, position, listed, added_by) values ($1, $2, $3, 0, false, $4)`,
        [album, id, org, user],
      )
      const subject = { person: user, organization: org, event }[kind]
      const hold = await addHold(db, { kind, subject, reason: 'case 7', placedBy: 'court' })
      t.equal(hold.added, true)
      t.equal(
        (await addHold(db, { kind, subject, reason: 'again', placedBy: 'court' })).id,
        hold.id,
        'one hold on one thing',
      )
      t.match(await carry(), { purged: 0, due: 0, ended: 'Finished', reason: '1 due item is kept by legal holds' })
      t.match(await carry(), { reason: '1 due item is kept by legal holds' }, 'each run says so')
      t.ok((await keysBelow(id)).length > 0)
      t.equal((await releaseHold(db, hold.id)).released, true)
      t.equal((await releaseHold(db, hold.id)).released, false)
      await admin.query('update media set lease_at = now()')
      t.match(await carry(), { purged: 1, reason: undefined })
      await isPurgedOnce(t, id)
      const entries = await admin.query(
        `select details ->> 'operation' as operation from audit_log where action = 'ADMIN_ACTION'
      and resource_type = 'hold' and resource_id = $1 order by occurred_at`,
        [hold.id],
      )
      t.strictSame(entries.rows, [{ operation: 'add hold' }, { operation: 'release hold' }])
      await admin.query('delete from albums; delete from events')
    },
  )
}

t.test('a hold that comes before the last transaction of a purge keeps the row', async (t) => {
  const [id = ''] = await trashed()
  const held: ObjectStore = {
    ...store,
    async deletePrefix(prefix) {
      const deleted = await store.deletePrefix(prefix)
      await addHold(db, { kind: 'organization', subject: org, reason: 'case 8', placedBy: 'court' })
      return deleted
    },
  }
  t.match(await carry({}, { store: held }), { purged: 0, failures: 0 })
  t.equal(await rows([id]), 1)
  t.equal(await purges(id), 0)
})

t.test('a hold waits for a purge in its last transaction, and its entry comes after that of the purge', async (t) => {
  for (let round = 0; round < 10; round++) {
    const [id = ''] = await trashed()
    const [, hold] = await Promise.all([
      carry(),
      addHold(db, { kind: 'organization', subject: org, reason: 'case 9', placedBy: 'court' }),
    ])
    const { rows: entries } = await admin.query(
      `select details ->> 'operation' as operation from audit_log
        where resource_id = $1 and details ->> 'operation' = 'purge' or resource_id = $2 order by serial`,
      [id, hold.id],
    )
    const isGone = (await rows([id])) === 0
    t.strictSame(
      entries.map(({ operation }) => operation),
      isGone ? ['purge', 'add hold'] : ['add hold'],
    )
    await admin.query('delete from legal_holds; delete from media')
  }
})

t.test('a run that is stopped because its policy was wrong has taken nothing that it did not begin', async (t) => {
  const ids = await trashed(20, '5 days')
  const inForce = (after: string) =>
    admin.query(
      `insert into retention_policies (target, name, uid, rules, purge_after, suspended, dry_run)
        values ('MediaTrash', 'p', 'u', '[]', $1, false, false) on conflict (target) do update set purge_after = $1`,
      [after],
    )
  await inForce('P1D')
  const stop = new AbortController()
  const slow: ObjectStore = {
    ...store,
    async deletePrefix(prefix) {
      stop.abort()
      return store.deletePrefix(prefix)
    },
  }
  const rules: RetentionRun['rules'] = [{ after: 'P1D', action: 'purge' }]
  const result = await carry({ rules, confirmed: true, batchSize: 20 }, { store: slow, signal: stop.signal })
  t.equal(result.ended, 'Stopped')
  await inForce('P30D')
  const listed = await db.read({}, (tx) => listTrash(tx, { orgId: org, of: undefined, after: undefined, limit: 30 }))
  t.equal(listed.length, 20 - result.purged, 'all others are in the trash')
  t.ok(listed.length >= 16)
  for (const { id } of listed)
    t.match(await db.read({}, (tx) => findMediaOrTrash(tx, org, id)), { id, isPastRestore: false })
  t.equal((await admin.query('select from media where id = any($1) and lease_token is not null', [ids])).rowCount, 0)
})

t.test(
  'a policy that becomes longer keeps what a run has claimed and not begun, also when its process dies',
  async (t) => {
    const ids = await trashed(3, '5 days')
    await admin.query(`insert into retention_policies (target, name, uid, rules, purge_after, suspended, dry_run)
    values ('MediaTrash', 'p', 'u', '[]', 'P1D', false, false)`)
    const rules: RetentionRun['rules'] = [{ after: 'P1D', action: 'purge' }]
    const slow: ObjectStore = {
      ...store,
      async *list(prefix) {
        await admin.query(`update retention_policies set purge_after = 'P30D'`)
        yield* store.list(prefix)
      },
    }
    t.match(await carry({ rules, confirmed: true }, { store: slow }), { purged: 0, failures: 0 })
    t.equal(await rows(ids), 3)
    // As a process that was killed leaves them.
    await admin.query(`update media set lease_token = $1, lease_at = now() + interval '1 hour'`, [newUuid()])
    const listed = await db.read({}, (tx) => listTrash(tx, { orgId: org, of: undefined, after: undefined, limit: 30 }))
    t.equal(listed.length, 3)
  },
)
