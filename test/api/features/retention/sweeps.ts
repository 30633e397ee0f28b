import t, { type Test } from 'tap'
import { purgeUnused } from '../../../../api/features/highlights/pieces/pieces.ts'
import { purgeDue } from '../../../../api/features/media/deletion/purge.ts'
import { TRASH } from '../../../../api/features/media/deletion/purge-queries.ts'
import { mediaTrash } from '../../../../api/features/media/deletion/trash-target.ts'
import { expireSessions } from '../../../../api/features/media/uploads/release.ts'
import { workerOf } from '../../../../api/features/notifications/worker.ts'
import { mirrorPolicies } from '../../../../api/features/retention/mirror.ts'
import { carryOut } from '../../../../api/features/retention/run.ts'
import { countRefused } from '../../../../api/features/retention/sweep-queries.ts'
import { confirmSweep } from '../../../../api/features/retention/sweeps.ts'
import { type Sweep, sweepTarget } from '../../../../api/worker/sweep-target.ts'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import { commandLine } from '../../../support/command-line.ts'
import { startConversionTest } from '../../../support/conversion-world.ts'
import { eventually } from '../../../support/eventually.ts'
import { waitingIn } from '../../../support/in-turn.ts'
import { readableLog } from '../../../support/readable-log.ts'
import { aRun, shiftClock } from '../../../support/retention.ts'
import { retentionItems } from '../../../support/retention-items.ts'

/** The worker's part for targets without a policy: the guard against a clock that has jumped, and policies that come meanwhile. */
const { database, place, world, base } = await startConversionTest(t)
const { admin, worker: db } = database
const { store } = place
const { org, user } = world
const { log, logged } = readableLog()
const deps = { ...base, log }
const { signal } = new AbortController()
const { trashed, anUpload, isStored, aNotification, aSource, hasPieces } = retentionItems({ admin, store }, world)
const env = { DATABASE_URL: database.url }

/** As the worker has it. */
function oldNotifications(given = db): Promise<unknown> {
  const { tasks = [] } = workerOf(
    { ...base, db: given, counterOf: () => () => {}, opened: Promise.resolve(false), log },
    [],
    undefined,
  )
  const [task] = tasks.filter(({ order }) => order === 'purges')
  return task?.run(0, signal) ?? Promise.reject(new Error('there is no such task'))
}

const left = async (ids: readonly Uuid[]) =>
  (await admin.query('select from media where id = any($1)', [ids])).rowCount ?? 0
const sweepRow = async (target = 'MediaTrash') =>
  (
    await admin.query(
      `select refused, due::int, confirmed_due::int as confirmed, clock_at, round(extract(epoch from app_now() - clock_at) / 86400)::int as days
        from retention_sweeps where target = $1`,
      [target],
    )
  ).rows[0]
const sweptAgo = (ago: string) => admin.query('update retention_sweeps set clock_at = now() - $1::interval', [ago])
const aPolicy = (target = 'MediaTrash') =>
  admin.query(
    `insert into retention_policies (target, name, uid, rules, suspended, dry_run) values ($1, 'p', 'u', '[]', true, false)
      on conflict do nothing`,
    [target],
  )
const held = (t: Test, of: object) => {
  const errors = logged.filter(({ level }) => level === 'error' || level === 50)
  t.match(errors.at(-1), of)
}

t.beforeEach(async () => {
  await shiftClock(admin, '0')
  for (const table of ['notifications', 'uploads', 'media', 'retention_runs', 'retention_policies', 'legal_holds']) {
    await admin.query(`delete from ${table}`)
  }
  await admin.query(`update retention_sweeps set refused = null, reason = null, refused_since = null, asked_at = null, due = null,
    confirmed_due = null, confirmed_at = null`)
  await sweptAgo('2 hours')
})
t.teardown(() => shiftClock(admin, '0'))

t.test('a clock a century ahead purges nothing of any target, and says so', async (t) => {
  const [media = ''] = await trashed(1, '1 day')
  const upload = await anUpload('open', '2 days')
  await aNotification('1 day')
  const source = await aSource(5)
  await admin.query(
    `insert into media_pieces (media_id, org_id, used_by, used_at, bytes) values ($1, $2, $3, now() - interval '1 day', 5)
      on conflict (media_id) do update set used_at = excluded.used_at`,
    [source, org, user],
  )
  await shiftClock(admin, '100 years')
  for (const [target, sweep] of [
    ['MediaTrash', () => purgeDue(deps)],
    ['Uploads', () => expireSessions(db, store, { log })],
    ['Notifications', () => oldNotifications()],
    ['PieceCache', () => purgeUnused(deps, signal)],
  ] as const) {
    await sweep()
    t.match(await sweepRow(target), { refused: 'ConfirmationRequired', due: 1 }, target)
    held(t, {
      target,
      due: 1,
      todo: new RegExp(`cli.js sweep confirm ${target} --due 1`),
      msg: /held back: 1 are due, and the last sweep was 3652\d days ago/,
    })
  }
  t.equal(await left([media]), 1)
  t.ok(await isStored(upload))
  t.equal((await admin.query('select from notifications')).rowCount, 1)
  t.ok(await hasPieces(source))
  t.equal(await db.read({}, countRefused), 4)
  t.equal((await commandLine(['sweep', 'list'], env)).out.held_back.length, 4)
  await aPolicy('Uploads')
  t.equal(await db.read({}, countRefused), 3, 'what a policy has asks for itself')
  await admin.query('delete from retention_policies')

  await shiftClock(admin, '0')
  for (const sweep of [() => purgeDue(deps), () => purgeUnused(deps, signal), () => oldNotifications()]) {
    await sweep()
  }
  t.equal(await left([media]), 1)
  t.equal(await db.read({}, countRefused), 1, 'the right clock asks nothing')
  await expireSessions(db, store, { log })
  t.notOk(await isStored(upload), 'what is due by it goes')
})

t.test(
  'where nothing is due, nothing asks; a clock that was ahead and is right again is not compared with',
  async (t) => {
    await sweptAgo('40 days')
    t.equal(await purgeDue(deps), 0)
    t.match(await sweepRow(), { refused: null, days: 0 })
    await sweptAgo('-100 years')
    const ids = await trashed()
    t.equal(await purgeDue(deps), 1)
    t.equal(await left(ids), 0)
    t.match(await sweepRow(), { refused: null, days: 0 })
  },
)

t.test('runs and sweeps of a target are compared with each other', async (t) => {
  const ids = await trashed(1, '1 day')
  const run = () => carryOut({ ...deps, signal, waitMs: 5, pauseMs: () => 1 }, mediaTrash, aRun('MediaTrash'))
  await shiftClock(admin, '60 days')
  t.match(await run(), { ended: 'ConfirmationRequired', reason: /last run was 60 days ago/ }, 'the first run of all')
  t.match(await carryOut({ ...deps, signal, waitMs: 5 }, mediaTrash, aRun('MediaTrash', { dryRun: true })), {
    ended: 'Finished',
  })
  await purgeDue(deps)
  t.match(await sweepRow(), { refused: 'ConfirmationRequired' }, 'a dry run is none to compare with')
  await admin.query(`insert into retention_runs (run, policy, policy_uid, target, slot, dry_run, clock_at)
    values ('r', 'p', 'u', 'MediaTrash', now(), false, app_now() - interval '1 day')`)
  await sweptAgo('-100 years')
  await shiftClock(admin, '120 days')
  t.equal(await purgeDue(deps), 0, 'a sweep by a clock that was ahead hides no run')
  await shiftClock(admin, '60 days')
  t.equal(await purgeDue(deps), 1, 'a policy has had it until yesterday')
  t.equal(await left(ids), 0)
})

t.test('more than a thousand and a fifth of all ask; an hour within the last sweep nothing does', async (t) => {
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, deleted_at, deleted_by)
      select gen_random_uuid(), $1, $2, 'f', 'video/mp4', 'video', 7, now() - interval '31 days', $2::uuid
      from generate_series(1, 1001)`,
    [org, user],
  )
  let went = false
  const go = () =>
    sweepTarget(deps, TRASH, 'P30D', async () => {
      went = true
    })
  await go()
  t.notOk(went)
  t.match(await sweepRow(), { refused: 'ConfirmationRequired', due: 1001 })
  held(t, { msg: /1001 of 1001 are due, more than 20 percent/ })
  await sweptAgo('59 minutes')
  await go()
  t.ok(went)
})

t.test('clocks that differ hold every sweep back, and no one can confirm it', async (t) => {
  const ids = await trashed()
  await sweptAgo('1 minute')
  const { now } = Date
  for (const ahead of [2, -2]) {
    Date.now = () => now() + ahead * 3_600_000
    try {
      t.equal(await purgeDue(deps), 0)
    } finally {
      Date.now = now
    }
    t.match(await sweepRow(), { refused: 'ClockSkew' })
    held(t, { todo: 'correct the clock', msg: /differ by 120 minutes/ })
    await t.rejects(confirmSweep(db, 'MediaTrash', 0), { code: 'CONFLICT' })
  }
  t.equal(await purgeDue(deps), 1)
  t.equal(await left(ids), 0)
  t.match(await sweepRow(), { refused: null })
})

// ---------------------------------------------------------------- confirmations

const confirmations = async () =>
  (await admin.query(`select details from audit_log where details ->> 'operation' = 'confirm sweep'`)).rows

t.test('a confirmation lets about as many go as the person has seen, once', async (t) => {
  const ids = await trashed(5)
  await sweptAgo('40 days')
  t.equal(await purgeDue(deps), 0)
  const confirm = (...args: string[]) => commandLine(['sweep', 'confirm', ...args], env)
  t.match(await commandLine(['sweep', 'list'], env), {
    out: { held_back: [{ target: 'MediaTrash', due: 5, refused: 'ConfirmationRequired', confirmed_due: null }] },
  })
  for (const [args, code] of [
    [['Trash', '--due', '5'], 2],
    [['MediaTrash'], 2],
    [['MediaTrash', '--due', 'all'], 2],
    [['MediaTrash', '--due', '4'], 3],
    [['MediaTrash', '--due', '50'], 3],
    [['Uploads', '--due', '5'], 3],
  ] as const) {
    t.equal((await confirm(...args)).code, code, args.join(' '))
  }
  t.strictSame(await confirmations(), [])
  t.match(await confirm('MediaTrash', '--due', '5'), {
    code: 0,
    out: { confirmed: { target: 'MediaTrash', confirmed_due: 5 } },
  })
  t.match(await confirm('MediaTrash', '--due', '5'), { code: 0 }, 'again')
  t.match(await confirmations(), [{ details: { target: 'MediaTrash', due: 5 } }, {}])
  await trashed(2)
  t.equal(await purgeDue(deps), 0, 'seven are more than were confirmed')
  t.match(await sweepRow(), { due: 7, confirmed: 5 })
  t.equal((await confirm('MediaTrash', '--due', '7')).code, 0)
  await shiftClock(admin, '50 days')
  t.equal(await purgeDue(deps), 0, 'not by a clock that has jumped since')
  await shiftClock(admin, '1 day')
  const purged = await Promise.all([purgeDue(deps), purgeDue(deps)])
  t.equal((purged[0] ?? 0) + (purged[1] ?? 0), 7, 'two workers at once')
  t.equal(await left(ids), 0)
  t.match(await sweepRow(), { refused: null, confirmed: null, days: 0 })
  t.equal((await confirm('MediaTrash', '--due', '7')).code, 3, 'it is used up')
})

t.test(
  'a worker that dies with a confirmed sweep leaves the rest to the next one, without another question',
  async (t) => {
    const ids = await trashed(3)
    await sweptAgo('40 days')
    await purgeDue(deps)
    await confirmSweep(db, 'MediaTrash', 3)
    await t.rejects(
      sweepTarget(deps, TRASH, 'P30D', () => Promise.reject(new Error('killed right after it began'))),
      { message: /killed/ },
    )
    t.equal(await purgeDue(deps), 3)
    t.equal(await left(ids), 0)
  },
)

t.test('what was asked by a clock that is right again cannot be confirmed', async (t) => {
  await trashed(1, '1 day')
  await shiftClock(admin, '100 years')
  await purgeDue(deps)
  await shiftClock(admin, '0')
  await t.rejects(confirmSweep(db, 'MediaTrash', 1), { code: 'CONFLICT' })
})

t.test('a policy in between ends what was asked and confirmed before it', async (t) => {
  const ids = await trashed(2)
  await sweptAgo('40 days')
  t.equal(await purgeDue(deps), 0)
  await confirmSweep(db, 'MediaTrash', 2)
  const listing = (found: object[]) =>
    mirrorPolicies({ ...deps, namespace: 'media', cluster: { ...base.cluster, list: async () => found as never } })
  const metadata = { name: 'p', uid: 'p', creationTimestamp: '2026-01-01T00:00:00Z' }
  const rules = [{ after: 'P1Y', action: 'purge' }]
  await listing([{ metadata, spec: { target: 'MediaTrash', rules, suspend: true } }])
  t.match(await sweepRow(), { refused: null, confirmed: null })
  await listing([])
  t.equal(await purgeDue(deps), 0, 'it asks again')
  t.equal(await left(ids), 2)
})

// ---------------------------------------------------------------- while it goes on

/** A store that does something, once, after the objects of the first item have gone. */
function meanwhile(act: () => Promise<unknown>) {
  let acted: Promise<unknown> | undefined
  return {
    ...store,
    async deletePrefix(prefix: string) {
      const deleted = await store.deletePrefix(prefix)
      acted ??= act()
      await acted
      return deleted
    },
  }
}

t.test('a policy that comes while a batch is purged ends it, and the rest is free for its runs', async (t) => {
  const ids = await trashed(4)
  t.equal(await purgeDue({ ...deps, store: meanwhile(() => aPolicy()) }), 1)
  t.equal(await left(ids), 3)
  t.equal((await admin.query('select from media where lease_token is not null or purging_at is not null')).rowCount, 0)
  t.equal(await purgeDue(deps), 0)
  t.equal(await left(ids), 3)
})

t.test('the same for uploads and pieces', async (t) => {
  const uploads = await Promise.all([1, 2, 3].map(() => anUpload('aborted', '1 hour')))
  await expireSessions(
    db,
    meanwhile(() => aPolicy('Uploads')),
    { log },
  )
  t.equal((await Promise.all(uploads.map(isStored))).filter(Boolean).length, 2)
  const sources = await Promise.all([1, 2, 3].map(() => aSource(5)))
  await admin.query(
    `insert into media_pieces (media_id, org_id, used_by, used_at, bytes)
      select id, $2, $3, now() - interval '40 days', 5 from unnest($1::uuid[]) id
      on conflict (media_id) do update set used_at = excluded.used_at`,
    [sources, org, user],
  )
  t.equal(await purgeUnused({ ...deps, store: meanwhile(() => aPolicy('PieceCache')) }, signal), 1)
  t.equal((await Promise.all(sources.map(hasPieces))).filter(Boolean).length, 2)
  t.equal((await admin.query('select from media_pieces where lease_token is not null')).rowCount, 0)
})

t.test('notifications: a policy that comes between two transactions ends it', async (t) => {
  await aNotification('91 days')
  const later = {
    ...db,
    // The sweep has looked for a policy, and begins.
    async inTransaction<T>(...given: Parameters<typeof db.inTransaction<T>>) {
      const result = await db.inTransaction(...given)
      await aPolicy('Notifications')
      return result
    },
  }
  await oldNotifications(later)
  t.match(await sweepRow('Notifications'), { days: 0 }, 'it had begun')
  t.equal((await admin.query('select from notifications')).rowCount, 1)
  await admin.query('delete from retention_policies')
  await oldNotifications()
  t.equal((await admin.query('select from notifications')).rowCount, 0)
})

/** What a sweep that has begun may do. */
async function begun(): Promise<Sweep> {
  const sweep = await sweepTarget(deps, TRASH, 'P30D', async (given) => given)
  if (!sweep) throw new Error('it was held back')
  return sweep
}

const mirror = () =>
  mirrorPolicies({
    ...deps,
    cluster: {
      ...base.cluster,
      list: async () => [
        {
          metadata: { name: 'p', uid: 'u', creationTimestamp: '2026-01-01T00:00:00Z' },
          spec: { target: 'MediaTrash', rules: [{ after: 'P1Y', action: 'purge' }], suspend: true },
        } as never,
      ],
    },
  })

t.test('a claim sees a policy that is being written, or is committed before it', async (t) => {
  const sweep = await begun()
  const order: string[] = []
  const claimed = Promise.withResolvers<void>()
  const goOn = Promise.withResolvers<void>()
  const claim = db.inTransaction({}, async (tx) => {
    t.ok(await sweep.mayClaim(tx))
    claimed.resolve()
    await goOn.promise
    order.push('claim')
  })
  await claimed.promise
  const written = mirror().then(() => order.push('policy'))
  await eventually('the policy to wait', async () => order.length > 0 || (await waitingIn(database)) === 1)
  const late = db.inTransaction({}, (tx) => sweep.mayClaim(tx))
  const isLateOver = late.then(() => true)
  await eventually('the next claim to wait', async () =>
    Promise.race([isLateOver, waitingIn(database).then((waiting) => waiting === 2)]),
  )
  goOn.resolve()
  await Promise.all([claim, written])
  t.strictSame(order, ['claim', 'policy'])
  t.equal(await late, false)
})

t.test('a clock that jumps while a sweep goes on makes nothing more due', async (t) => {
  const [due = '', young = ''] = [...(await trashed()), ...(await trashed(1, '1 day'))]
  t.equal(await purgeDue({ ...deps, store: meanwhile(() => shiftClock(admin, '100 years')) }, { batch: 1 }), 1)
  t.strictSame([await left([due]), await left([young])], [0, 1])
  t.equal(await purgeDue(deps), 0)
  t.match(await sweepRow(), { refused: 'ConfirmationRequired', due: 1 })
})
