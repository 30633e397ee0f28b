import t, { type Test } from 'tap'
import { sql as orm } from '../../../../api/db/orm.ts'
import { eventArchive } from '../../../../api/features/event-archive/archive-target.ts'
import { dueForNotice } from '../../../../api/features/event-archive/notice-queries.ts'
import { dueToCool, dueToPurge } from '../../../../api/features/event-archive/queries.ts'
import { withdrawMedia } from '../../../../api/features/media/deletion/erasure-queries.ts'
import { purgeDue } from '../../../../api/features/media/deletion/purge.ts'
import { lockWithCounterpart, markRestored } from '../../../../api/features/media/deletion/queries.ts'
import { mediaTrash } from '../../../../api/features/media/deletion/trash-target.ts'
import { addHold, releaseHold } from '../../../../api/features/retention/holds.ts'
import { carryOut } from '../../../../api/features/retention/run.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { originalKey } from '../../../../lib/contract/object-keys.ts'
import type { RetentionRun } from '../../../../lib/contract/retention.ts'
import { type ObjectStore, StoreError } from '../../../../lib/runtime/object-store/object-store.ts'
import { archiveWorld } from '../../../support/archived-events.ts'
import { startConversionTest } from '../../../support/conversion-world.ts'
import { insertMany } from '../../../support/explain.ts'
import { aRun } from '../../../support/retention.ts'

/** Runs of a policy for archived events. What belongs to an event is tested in belonging.ts, what runs have in common in retention/. */
const { database, place: storage, world, base } = await startConversionTest(t)
const { worker: db, admin } = database
const { store } = storage
const { org, user } = world
const made = archiveWorld({ admin, store, org, user })
const { sql, anEvent, anAlbum, aMedia, place, aComment, aHighlight, exists, keysOf, audited, announced } = made
const deps = { db, store, log: base.log, signal: new AbortController().signal, waitMs: 5, pauseMs: () => 1 }

const RULES: RetentionRun['rules'] = [
  { after: 'P2Y', action: 'moveToTier', tier: 'cold' },
  { after: 'P7Y', action: 'purge' },
]
const carry = (change: Partial<RetentionRun> = {}, more: object = {}) =>
  carryOut({ ...deps, ...more }, eventArchive, aRun('EventArchive', { rules: RULES, ...change }))
const expireLeases = () =>
  sql(`update events set lease_at = now(); `).then(() => sql('update media set lease_at = now()'))

/** An archived event with something of everything; `alone` goes with it, `shared` is in another album as well. */
async function aParty(archived = 8) {
  const event = await anEvent({ archived })
  const album = await anAlbum(event)
  const [alone, shared, inComment] = [await aMedia(), await aMedia(), await aMedia()]
  const pair = await made.aLivePhoto()
  for (const id of [alone, shared, pair[0]]) await place(album, id)
  await place(await anAlbum(null), shared)
  const comment = await aComment(event, [inComment])
  const highlight = await aHighlight(album, [alone])
  await sql(
    `insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji, audience)
      values ($1, $2, $3, 'meta', $3, $4, '🎉', 'event')`,
    [newUuid(), org, event, user],
  )
  await sql(
    `insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, 'accepted', now())`,
    [event, user, org],
  )
  return { event, album, alone, shared, inComment, pair, comment, highlight }
}
const operationsOf = async (id: Uuid): Promise<string[]> =>
  (
    await sql(
      `select details ->> 'operation' as operation from audit_log where action = 'MEDIA_DELETE' and resource_id = $1 order by serial`,
      [id],
    )
  ).map(({ operation }) => operation)
type Party = Awaited<ReturnType<typeof aParty>>

async function isPurgedOnce(t: Test, { event, album, alone, shared, inComment, pair, comment, highlight }: Party) {
  for (const [table, id] of [
    ['events', event],
    ['albums', album],
    ['comments', comment],
  ] as const)
    t.notOk(await exists(table, id), `no row in ${table}`)
  for (const id of [alone, inComment, ...pair]) {
    t.notOk(await exists('media', id))
    t.strictSame(await keysOf(id), [], 'no object')
    t.strictSame(await announced('MediaPurged', id), [
      { media_id: formatId('media', id), org_id: formatId('organization', org) },
    ])
    t.strictSame(await operationsOf(id), ['delete', 'purge'], 'announced before its objects go')
    t.match(await announced('MediaDeleted', id), [{ media_id: formatId('media', id) }])
  }
  t.ok(await exists('media', shared), 'what another album has stays')
  t.equal((await keysOf(shared)).length, 2)
  t.strictSame(await sql('select album_id from highlights where id = $1', [highlight]), [{ album_id: null }])
  const of = { event_id: formatId('event', event), org_id: formatId('organization', org) }
  t.strictSame(await announced('EventDeleted', event), [of])
  t.strictSame(await announced('AlbumDeleted', album), [{ ...of, album_id: formatId('album', album) }])
  t.strictSame(await audited('EVENT_PURGED', event), [
    { album_id: formatId('album', album), comments: 1, reactions: 1, invitations: 0, participants: 1 },
  ])
}

t.beforeEach(() => made.clear())

t.test('nothing begins without the cold tier, in a dry run neither, and the result says why', async (t) => {
  const { event, alone } = await aParty(3)
  const noTier = { ...store, checkColdTier: () => Promise.reject(new StoreError('BadConfiguration', 'no such class')) }
  for (const dryRun of [false, true]) {
    const result = await carry({ dryRun }, { store: noTier })
    t.match(result, {
      ended: 'StoreUnavailable',
      moved: 0,
      failures: 0,
      reason: 'The cold tier cannot be used: no such class',
    })
  }
  t.ok(await exists('events', event))
  t.match(await keysOf(alone), [/original$/])
  t.notMatch(await keysOf(alone), [/cold/])
})

t.test('an event that was archived so long ago goes with all that is its own', async (t) => {
  const [party, early] = [await aParty(), await aParty(6)]
  const result = await carry({ rules: RULES.slice(1) })
  t.match(result, { purged: 1, moved: 0, failures: 0, due: 1, ended: 'Finished', errors: [] })
  t.ok(result.bytes > 100, 'what the store had')
  await isPurgedOnce(t, party)
  t.ok(await exists('events', early.event), 'seven years are not over')
  t.match(await carry({ rules: RULES.slice(1) }), { purged: 0, due: 0, ended: 'Finished' })
})

t.test('a policy in force without a purge keeps events, also from a run that still has the rule', async (t) => {
  const { event } = await aParty()
  await made.setPolicy(null)
  t.match(await carry(), { purged: 0, moved: 1, due: 1, ended: 'Finished' })
  t.ok(await exists('events', event), 'it moves to the cold tier, and stays')
})

t.test('two processes of a run purge each event once', async (t) => {
  const parties: Party[] = []
  for (let n = 0; n < 6; n++) parties.push(await aParty())
  const run = aRun('EventArchive', { rules: RULES, batchSize: 2 })
  await Promise.all([1, 2].map(() => carryOut(deps, eventArchive, run)))
  for (const party of parties) await isPurgedOnce(t, party)
})

t.test('a process that stops in the middle of an event gives back what it has not purged', async (t) => {
  const party = await aParty()
  const stop = new AbortController()
  const stopping: ObjectStore = {
    ...store,
    deletePrefix: (prefix) => {
      stop.abort()
      return store.deletePrefix(prefix)
    },
  }
  t.match(await carry({}, { store: stopping, signal: stop.signal }), { ended: 'Stopped', purged: 0 })
  t.ok(await exists('events', party.event))
  t.match(await carry(), { ended: 'Finished', purged: 1 }, 'at once')
  await isPurgedOnce(t, party)
})

t.test('a media item that another process purges keeps the event for a later run', async (t) => {
  const party = await aParty()
  await sql(`update media set lease_at = now() + interval '1 hour', lease_token = $2 where id = $1`, [
    party.alone,
    newUuid(),
  ])
  t.match(await carry(), { ended: 'Finished', purged: 0 })
  t.ok(await exists('events', party.event))
  await expireLeases()
  t.match(await carry(), { purged: 1 })
  await isPurgedOnce(t, party)
})

// ---------------------------------------------------------------- the cold tier

const tiers = async (ids: readonly Uuid[]) =>
  (await sql('select original_tier as tier from media where id = any($1) order by array_position($1, id)', [ids])).map(
    ({ tier }) => tier,
  )

t.test('originals of an event move to the cold tier, except what something else holds', async (t) => {
  const { event, alone, shared, inComment, pair } = await aParty(3)
  const text = async (id: Uuid, key: string) =>
    Buffer.concat(await (await store.get(originalKey(org, id).replace('original', key))).body.toArray()).toString()
  const before = await text(alone, 'original')
  t.match(await carry(), { moved: 1, purged: 0, failures: 0, due: 1, ended: 'Finished' })
  t.strictSame(await tiers([alone, inComment, ...pair, shared]), ['cold', 'cold', 'cold', 'cold', 'hot'])
  for (const id of [alone, inComment, ...pair]) t.strictSame(await keysOf(id), ['cold/original', 'v1/image.webp'])
  t.strictSame(await keysOf(shared), ['original', 'v1/image.webp'])
  t.equal(await text(alone, 'cold/original'), before)
  t.match(await sql('select sha256 from media where id = $1', [alone]), [{ sha256: /^[0-9a-f]{64}$/ }])
  t.strictSame(await audited('EVENT_COLD_TIER', event), [{ originals: 4 }])
  t.match(await carry(), { moved: 0, due: 0 }, 'once')
})

t.test('an original that something held moves at a later look, and the event counts once', async (t) => {
  const { event, shared } = await aParty(3)
  t.match(await carry(), { moved: 1 })
  await sql(`update albums set status = 'ARCHIVE' where event_id is null`)
  await sql(`update events set cold_look_at = now() - interval '1 minute'`)
  const again = await carry()
  t.match(again, { moved: 0, due: 0 })
  t.ok(again.bytes > 0)
  t.strictSame(await tiers([shared]), ['cold'])
  t.equal((await audited('EVENT_COLD_TIER', event)).length, 1)
})

t.test('an original that comes to be used while it is copied stays where it is', async (t) => {
  const { alone } = await aParty(3)
  const busy: ObjectStore = {
    ...store,
    async copy(from, ...rest) {
      const info = await store.copy(from, ...rest)
      if (from.includes(alone)) await place(await anAlbum(null), alone)
      return info
    },
  }
  t.match(await carry({}, { store: busy }), { moved: 1, failures: 0 })
  t.strictSame(await tiers([alone]), ['hot'])
  t.ok((await keysOf(alone)).includes('original'))
})

t.test('an original that is missing or changed is an error that names it, and the others move', async (t) => {
  const [missing, changed, fine] = [await aParty(3), await aParty(3), await aParty(3)]
  await store.delete(originalKey(org, missing.alone))
  await store.delete(originalKey(org, missing.inComment))
  await sql(`update media set sha256 = repeat('0', 64) where id = $1`, [changed.alone])
  const result = await carry()
  t.match(result, { moved: 1, failures: 2, ended: 'Finished' })
  const saidOf = ({ event }: Party) => result.errors.find(({ id }) => id === formatId('event', event))
  t.match(saidOf(changed), { code: 'Changed', message: formatId('media', changed.alone) })
  const both = saidOf(missing)?.message ?? ''
  for (const id of [missing.alone, missing.inComment]) t.ok(both.includes(formatId('media', id)), both)
  t.ok((await keysOf(changed.alone)).includes('original'), 'nothing of it is deleted')
  t.strictSame(await tiers([changed.alone, changed.inComment, ...changed.pair]), ['hot', 'cold', 'cold', 'cold'])
  t.strictSame(await tiers([...missing.pair, fine.alone]), ['cold', 'cold', 'cold'])
  t.strictSame(await audited('EVENT_COLD_TIER', changed.event), [], 'not all of it is there')
  t.match(await carry(), { moved: 0, due: 0, failures: 0 }, 'both were looked at')
  // The original is what it was again, at the next look.
  await sql('update media set sha256 = null where id = $1', [changed.alone])
  await sql(`update events set cold_look_at = now() - interval '1 minute'`)
  t.match(await carry(), { moved: 1, failures: 1 })
  t.strictSame(await tiers([changed.alone]), ['cold'])
})

t.test('an original that the store does not copy keeps no other, and is tried again', async (t) => {
  const { event, alone, inComment, pair } = await aParty(3)
  const bad: ObjectStore = {
    ...store,
    copy: (from, ...rest) =>
      from.includes(alone) ? Promise.reject(new StoreError('Unavailable', 'refused')) : store.copy(from, ...rest),
  }
  t.match(await carry({}, { store: bad }), { moved: 0, failures: 1, errors: [{ message: formatId('media', alone) }] })
  t.strictSame(await tiers([alone, inComment, ...pair]), ['hot', 'cold', 'cold', 'cold'])
  await expireLeases()
  t.match(await carry(), { moved: 1, failures: 0 })
  t.equal((await audited('EVENT_COLD_TIER', event)).length, 1)
})

t.test('a purge removes what is in the cold tier', async (t) => {
  const party = await aParty(3)
  await carry()
  await sql(`update events set archived_at = archived_at - interval '5 years'`)
  await made.announcePurge(party.event)
  t.match(await carry(), { purged: 1 })
  t.strictSame(await keysOf(party.alone), [])
})

t.test('a dry run lists what a run would do, and changes nothing', async (t) => {
  const [old, young] = [await aParty(8), await aParty(3)]
  const before = await sql('select * from events order by id')
  t.match(await carry({ dryRun: true }), { purged: 1, moved: 1, ended: 'Finished' })
  t.strictSame(await sql('select * from events order by id'), before)
  t.ok((await exists('events', old.event)) && (await exists('events', young.event)))
})

// ---------------------------------------------------------------- holds and races

for (const [whose, subjectOf] of [
  ['the event', (p: Party) => ({ kind: 'event' as const, subject: p.event })],
  ['the organization', () => ({ kind: 'organization' as const, subject: org })],
  ['the owner', () => ({ kind: 'person' as const, subject: user })],
  [
    'someone who has written a comment',
    async (p: Party) => {
      const person = await made.aPerson()
      await aComment(p.event, [], { by: person })
      return { kind: 'person' as const, subject: person }
    },
  ],
  [
    'someone who has added a photo',
    async (p: Party) => {
      const person = await made.aPerson()
      await place(p.album, await aMedia({ by: person }), { by: person })
      return { kind: 'person' as const, subject: person }
    },
  ],
] as const) {
  t.test(`a hold on ${whose} keeps an event, and its end lets it go`, async (t) => {
    const party = await aParty()
    const hold = await addHold(db, { ...(await subjectOf(party)), reason: 'case 1', placedBy: 'court' })
    t.match(await carry(), { purged: 0, failures: 0, due: 0, reason: /1 due item is kept by legal holds/ })
    t.equal((await keysOf(party.alone)).length, 2)
    await releaseHold(db, hold.id)
    await expireLeases()
    t.match(await carry(), { purged: 1 })
  })
}

t.test('a hold that comes while media items go keeps the event and the rest', async (t) => {
  const party = await aParty()
  const holding: ObjectStore = {
    ...store,
    async deletePrefix(prefix) {
      const deleted = await store.deletePrefix(prefix)
      if (deleted > 0) await addHold(db, { kind: 'event', subject: party.event, reason: 'case 2', placedBy: 'court' })
      return deleted
    },
  }
  t.match(await carry({}, { store: holding }), { purged: 0, failures: 0 })
  t.ok(await exists('events', party.event))
  for (const id of [party.alone, party.inComment, ...party.pair]) {
    t.ok(await exists('media', id), 'the row says what there was')
    t.notOk((await operationsOf(id)).includes('purge'))
  }
})

const stateOf = async (id: Uuid) =>
  (
    await sql(
      `select deleted_at is not null as deleted, purging_at is not null as purging, lease_at <= now() as free
        from media where id = $1`,
      [id],
    )
  )[0]
const IN_LIBRARY = { deleted: false, purging: false, free: true }

/** An event with three photos, and someone who only takes part in it. */
async function aPartyWithGuest() {
  const event = await anEvent()
  const album = await anAlbum(event)
  const photos = [await aMedia(), await aMedia(), await aMedia()]
  for (const id of photos) await place(album, id)
  const guest = await made.aPerson()
  await sql(
    `insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, 'accepted', now())`,
    [event, guest, org],
  )
  const hold = () => addHold(db, { kind: 'person', subject: guest, reason: 'case 4', placedBy: 'court' })
  /** With their objects, as they were before. */
  const whole = async () => {
    const ids: Uuid[] = []
    for (const id of photos) if ((await keysOf(id)).length === 2) ids.push(id)
    return ids
  }
  return { event, photos, hold, whole }
}

t.test(
  'a hold on someone who takes part, which comes while the first photo goes, keeps all that is left',
  async (t) => {
    const { event, photos, hold, whole } = await aPartyWithGuest()
    let held: Awaited<ReturnType<typeof hold>> | undefined
    const holding: ObjectStore = {
      ...store,
      async deletePrefix(prefix) {
        held ??= await hold()
        return store.deletePrefix(prefix)
      },
    }
    t.match(await carry({}, { store: holding }), { purged: 0, failures: 0, ended: 'Finished' })
    t.ok(await exists('events', event))
    const left = await whole()
    t.equal(left.length, 2, 'the one that was being deleted has no objects')
    for (const id of photos) {
      t.ok(await exists('media', id))
      t.notOk((await operationsOf(id)).includes('purge'), 'nothing is purged after the entry of the hold')
    }
    for (const id of left) t.strictSame(await stateOf(id), IN_LIBRARY)
    await releaseHold(db, held?.id as Uuid)
    await expireLeases()
    t.match(await carry(), { purged: 1 }, 'and its end lets the event go')
    for (const id of photos) t.notOk(await exists('media', id))
  },
)

t.test('a hold that comes before the objects of a photo go puts it back', async (t) => {
  const { event, photos, hold, whole } = await aPartyWithGuest()
  // The moment between the transaction that takes it out and the first deletion.
  const late: typeof db = {
    ...db,
    async inTransaction(scope, work) {
      const result = await db.inTransaction(scope, work)
      if ((result as unknown) === 'taken') await hold()
      return result
    },
  }
  t.match(await carry({}, { db: late }), { purged: 0, failures: 0 })
  t.ok(await exists('events', event))
  t.equal((await whole()).length, 3)
  for (const id of photos) t.strictSame(await stateOf(id), IN_LIBRARY)
  const said = (await Promise.all(photos.map(operationsOf))).filter((operations) => operations.length > 0)
  t.strictSame(said, [['delete', 'restore']], 'the audit log says both, of one')
  t.strictSame(await sql('select listed from album_media where not listed'), [])
})

t.test('a run that stops leaves in the library what it has not begun, and no other purge takes the rest', async (t) => {
  const { event, photos, whole } = await aPartyWithGuest()
  const stop = new AbortController()
  // It refuses the second photo after one object, and the process ends.
  let calls = 0
  const failing: ObjectStore = {
    ...store,
    async deletePrefix(prefix) {
      calls += 1
      if (calls < 3) return store.deletePrefix(prefix)
      for await (const { key } of store.list(prefix)) {
        await store.delete(key)
        break
      }
      stop.abort()
      throw new StoreError('Unavailable', 'away')
    },
  }
  t.match(await carry({}, { store: failing, signal: stop.signal }), { ended: 'Stopped', purged: 0 })
  t.ok(await exists('events', event))
  const [left] = await whole()
  t.strictSame(await stateOf(left as Uuid), IN_LIBRARY, 'the third was not begun')
  const torn = await sql('select id from media where purging_at is not null')
  t.equal(torn.length, 1, 'of the second the row says what there was')
  // The policy of events is suspended, and that of the trash goes on.
  await sql(`update media set deleted_at = now() - interval '40 days', purging_at = now() - interval '40 days',
    lease_at = now() where purging_at is not null`)
  t.match(await carryOut(deps, mediaTrash, aRun('MediaTrash')), { purged: 0, due: 0 })
  t.equal(await purgeDue(base), 0, 'the sweep neither')
  t.ok(await exists('media', torn[0]?.id))
  t.match(await carry(), { purged: 1 }, 'the next run finishes it')
  for (const id of photos) t.notOk(await exists('media', id))
})

t.test('a photo that the store does not delete stays in the library, or in the trash where it was', async (t) => {
  const { event, photos } = await aPartyWithGuest()
  const [trashed] = photos as [Uuid]
  await sql('update media set deleted_at = now(), deleted_by = uploader_id where id = $1', [trashed])
  const refusing: ObjectStore = { ...store, deletePrefix: () => Promise.reject(new StoreError('Locked', 'locked')) }
  for (const _ of photos) {
    t.match(await carry({}, { store: refusing }), { failures: 1, purged: 0 })
    await expireLeases()
  }
  t.ok(await exists('events', event))
  for (const id of photos) t.strictSame(await stateOf(id), { ...IN_LIBRARY, deleted: id === trashed })
})

t.test('what has lost an object stays withdrawn, however often its purge fails afterwards', async (t) => {
  const { photos, whole } = await aPartyWithGuest()
  let calls = 0
  const failing: ObjectStore = {
    ...store,
    async deletePrefix(prefix) {
      calls += 1
      if (calls === 1) {
        for await (const { key } of store.list(prefix)) {
          await store.delete(key)
          break
        }
      }
      throw new StoreError('Unavailable', 'away')
    },
  }
  for (let run = 0; run < 2; run++) {
    t.match(await carry({}, { store: failing }), { purged: 0 })
    await expireLeases()
  }
  t.ok(calls > 2, 'it was tried again')
  const torn = await sql('select id from media where purging_at is not null')
  t.equal(torn.length, 1)
  t.notOk((await whole()).includes(torn[0]?.id))
  t.strictSame(await operationsOf(torn[0]?.id), ['delete'])
  t.match(await carry(), { purged: 1 }, 'the next run finishes it')
  for (const id of photos) t.notOk(await exists('media', id))
})

t.test('what was taken out by a process that died, and is whole, is put back when its purge fails', async (t) => {
  const { photos } = await aPartyWithGuest()
  const dying: typeof db = {
    ...db,
    async inTransaction(scope, work) {
      const result = await db.inTransaction(scope, work)
      if ((result as unknown) === 'taken') throw new Error('died')
      return result
    },
  }
  await carry({}, { db: dying })
  t.equal((await sql('select id from media where purging_at is not null')).length, 1)
  await expireLeases()
  const refusing: ObjectStore = { ...store, deletePrefix: () => Promise.reject(new StoreError('Locked', 'locked')) }
  t.match(await carry({}, { store: refusing }), { failures: 1, purged: 0 })
  for (const id of photos) t.strictSame(await stateOf(id), IN_LIBRARY)
})

t.test('what an erasure takes while an event is purged is not put back', async (t) => {
  const { photos } = await aPartyWithGuest()
  const erasureId = newUuid()
  await sql(`insert into erasures (id, user_id, asked_by) values ($1, $2, 'user')`, [erasureId, user])
  const refusing: ObjectStore = {
    ...store,
    async deletePrefix() {
      await db.inTransaction({}, (tx) => withdrawMedia(tx, { erasureId, userId: user }, 100))
      throw new StoreError('Locked', 'locked')
    },
  }
  await carry({}, { store: refusing })
  for (const id of photos) t.match(await stateOf(id), { deleted: true, purging: true })
  t.strictSame(await sql('select id from media where leaving_with is not null'), [])
  await sql('delete from erasure_resources')
  await sql('delete from erasures')
})

/** As members do who put a media item into another album. */
async function add(media: Uuid): Promise<boolean> {
  return database.db.inTransaction({ org }, async (tx) => {
    const locked = await lockWithCounterpart(tx, org, media, 'share')
    if (!locked || locked.row.deletedAt !== null) return false
    const album = newUuid()
    await tx.execute(`insert into albums (id, org_id, owner_id, title) values ('${album}', '${org}', '${user}', 'A')`)
    await tx.execute(`insert into album_media (album_id, media_id, org_id, position, listed, added_by)
      values ('${album}', '${media}', '${org}', 1, true, '${user}')`)
    return true
  })
}
const restore = (media: Uuid) =>
  database.db.inTransaction({ org }, async (tx) => {
    const { row, all = [] } = (await lockWithCounterpart(tx, org, media)) ?? {}
    if (!row || row.purgingAt !== null || row.deletedAt === null) return false
    await markRestored(tx, all, { givesUpPairId: false })
    return true
  })

t.test('of a purge and an addition to another album at the same time one wins', async (t) => {
  for (let round = 0; round < 8; round++) {
    await made.clear()
    const { event, alone } = await aParty()
    const [, added] = await Promise.all([carry(), add(alone)])
    t.equal(await exists('media', alone), added, added ? 'it is in the other album' : 'it is gone')
    t.equal((await keysOf(alone)).length > 0, added, 'with its objects or without')
    t.notOk(await exists('events', event))
  }
})

t.test('of a purge, a restore, a deletion and a hold at the same time each leaves a whole', async (t) => {
  for (let round = 0; round < 8; round++) {
    await made.clear()
    const { event, alone } = await aParty()
    await sql('update media set deleted_at = now(), deleted_by = uploader_id where id = $1', [alone])
    const hold = { kind: 'event' as const, subject: event, reason: 'case 3', placedBy: 'court' }
    const [, restored] = await Promise.all([carry(), restore(alone), addHold(db, hold).catch(() => undefined)])
    const [isThere, hasRow] = [(await keysOf(alone)).length > 0, await exists('media', alone)]
    const [row] = await sql('select deleted_at, purging_at from media where id = $1', [alone])
    if (restored && hasRow && row?.purging_at === null) t.ok(isThere, 'restored, and whole')
    if (!hasRow) t.notOk(isThere, 'purged, and no object left')
    if (!(await exists('events', event))) t.notOk(hasRow && row?.purging_at !== null, 'nothing is half purged')
  }
})

// ---------------------------------------------------------------- the index

interface Node {
  'Node Type': string
  'Index Name'?: string
  'Rows Removed by Filter'?: number
  Plans?: Node[]
}
const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)]

t.test('what is due is found by the index, whatever is leased, cold or not due yet', async (t) => {
  await insertMany(
    database,
    `insert into events (id, org_id, owner_id, title, start_at, status, archived_at, cold_at, cold_look_at, lease_at,
        purge_notice, purge_notice_for, purge_notice_to, purge_look_at)
      select gen_random_uuid(), $1, $2, 'x', now(), 'archived', now() - n * interval '4 hours', now(), now() + interval '1 day',
          case when n % 2 = 0 then now() + interval '1 hour' else '-infinity' end,
          case when n > 15300 then 2 else 0 end, case when n > 15300 then date_trunc('milliseconds', now()) - (n - 17000) * interval '1 minute' end,
          (select user_id from memberships where org_id = $1 and user_id = $2),
          case when n % 100 = 0 then '-infinity' else now() + interval '1 day' end
        from generate_series(1, 20000) n`,
    [org, user],
  )
  await sql('vacuum analyze events')
  const due = { at: new Date().toISOString(), rules: RULES }
  for (const [query, index] of [
    [dueToPurge(due, 10), 'events_to_purge'],
    [dueToCool(due, 10), 'events_to_cool'],
    [dueForNotice(10), 'events_to_announce'],
  ] as const) {
    const { rows } = await db.inTransaction({}, (tx) =>
      tx.execute<{ 'QUERY PLAN': [{ Plan: Node }] }>(orm`explain (analyze, format json) ${query}`),
    )
    const nodes = nodesOf((rows[0] as { 'QUERY PLAN': [{ Plan: Node }] })['QUERY PLAN'][0].Plan)
    t.ok(
      nodes.some((node) => node['Index Name'] === index),
      index,
    )
    t.strictSame(
      nodes.filter((node) => node['Node Type'] === 'Seq Scan' && (node['Rows Removed by Filter'] ?? 0) > 100),
      [],
    )
    t.ok(
      nodes.every((node) => (node['Rows Removed by Filter'] ?? 0) < 100),
      'it reads no row in vain',
    )
  }
})
