import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { eventArchive } from '../../../../api/features/event-archive/archive-target.ts'
import { giveNotices } from '../../../../api/features/event-archive/notices.ts'
import { carryOut } from '../../../../api/features/retention/run.ts'
import { ERASE_STEPS } from '../../../../api/features.ts'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { aPerson, type Person, startTestApi, uuidOf } from '../../../support/api.ts'
import { archiveWorld } from '../../../support/archived-events.ts'
import { testCluster } from '../../../support/conversion-world.ts'
import { eraseDeps, eraseWhole } from '../../../support/erasure.ts'
import { quietLog } from '../../../support/quiet-log.ts'
import { aRun } from '../../../support/retention.ts'

/** A person is erased while an event of theirs is purged: whichever takes what first, all of it goes, once, and is recorded. */
const api = await startTestApi(t)
const { database, people, store, call } = api
const { admin, worker: db } = database
const org = uuidOf('organization', api.org)
const made = archiveWorld({ admin, store, org, user: people.another.id })
const { sql, exists, keysOf } = made
await made.setPolicy('P7Y')
const erasing = eraseDeps(api, testCluster(t))
const log = quietLog()
const deps = { db, store, log, signal: new AbortController().signal, waitMs: 5, pauseMs: () => 1 }
const purge = () =>
  carryOut(deps, eventArchive, aRun('EventArchive', { rules: [{ after: 'P7Y', action: 'purge' }], confirmed: true }))

/** An event of the person, with what others and the person added, and an item of another that lives in another album, too. */
async function aParty(owner: Uuid) {
  const event = await made.anEvent({ owner })
  const album = await made.anAlbum(event)
  const [own, ownElsewhere, others, kept] = [
    await made.aMedia({ by: owner }),
    await made.aMedia({ by: owner }),
    await made.aMedia(),
    await made.aMedia(),
  ]
  for (const id of [own, ownElsewhere]) await made.place(album, id, { by: owner })
  for (const id of [others, kept]) await made.place(album, id)
  const elsewhere = await made.anAlbum(null)
  for (const id of [ownElsewhere, kept]) await made.place(elsewhere, id)
  const attached = await made.aMedia({ by: owner })
  const comment = await made.aComment(event, [attached], { by: owner })
  await made.aHighlight(elsewhere, [kept])
  return { event, album, comment, own: [own, ownElsewhere, attached], others, kept }
}
type Party = Awaited<ReturnType<typeof aParty>>

async function endsRight(t: Test, { event, album, comment, own, others, kept }: Party, erasure: Uuid) {
  for (const [table, id] of [
    ['events', event],
    ['albums', album],
    ['comments', comment],
    ...[...own, others].map((id): [string, Uuid] => ['media', id]),
  ] as [string, Uuid][])
    t.notOk(await exists(table, id), `no row in ${table}`)
  for (const id of [...own, others]) t.strictSame(await keysOf(id), [], 'no object')
  t.ok(await exists('media', kept), 'what another album holds stays')
  t.equal((await keysOf(kept)).length, 2)
  t.equal((await made.audited('EVENT_PURGED', event)).length, 1, 'the event was purged once')
  for (const id of [...own, others]) {
    const entries = await made.audited('MEDIA_DELETE', id)
    t.equal(entries.filter(({ operation }) => operation === 'purge').length, 1, 'each media item was purged once')
  }
  const [{ status }] = await sql('select status from erasures where id = $1', [erasure])
  t.equal(status, 'completed')
}

/** What happened first, as the audit log has it. */
async function firstOf(event: Uuid, person: Uuid): Promise<string> {
  const [first] = await sql(
    `select action from audit_log where (action = 'EVENT_PURGED' and resource_id = $1)
        or (action = 'GDPR_ANONYMIZE' and resource_id = $2 and details ->> 'operation' = 'complete') order by txid, serial limit 1`,
    [event, person],
  )
  return first?.action
}

async function aMember(): Promise<Person> {
  const person = await aPerson(api)
  await sql(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [org, person.id])
  return person
}
async function ask(person: Person): Promise<Uuid> {
  const json = { user_id: person.wireId, confirm: true }
  const { data, status } = await call(people.platformAdmin, 'POST', '/gdpr/anonymize', { json })
  t.equal(status, 201)
  return uuidOf('anonymization', data.anonymization_id)
}

t.test('whichever wins, all of it goes once, and the audit log says in which order', async (t) => {
  const firsts = new Map<string, number>()
  for (let round = 0; round < 8; round++) {
    const person = await aMember()
    const party = await aParty(person.id)
    const erasure = await ask(person)
    const after = async (ms: number, work: () => Promise<unknown>) => {
      await sleep(ms)
      await work()
    }
    // From a run that is nearly done to an erasure that is.
    await Promise.all([
      after(Math.max(0, 4 - round) * 15, () => eraseWhole(erasing, erasure)),
      after(Math.max(0, round - 3) * 40, purge),
    ])
    // What one of them found in use is looked at again later, once the next owner of the event was told.
    for (let again = 0; again < 3 && (await exists('events', party.event)); again++) {
      await made.announcePurge(party.event)
      await sql('update events set lease_at = now()')
      await sql('update media set lease_at = now()')
      await purge()
    }
    await endsRight(t, party, erasure)
    const first = await firstOf(party.event, person.id)
    firsts.set(first, (firsts.get(first) ?? 0) + 1)
  }
  t.comment(JSON.stringify([...firsts]))
})

t.test('who gets an event by an erasure is told of its purge, and it is purged only then', async (t) => {
  await made.clear()
  const { signal } = new AbortController()
  const person = await aMember()
  const event = await made.anEvent({ archived: 7, announced: false, owner: person.id })
  await sql(`update events set archived_at = archived_at + interval '7 days' where id = $1`, [event])
  const others = await made.aMedia()
  await made.place(await made.anAlbum(event), others)
  await giveNotices({ db, log }, signal)
  const noticesOf = async () => (await made.announced('EventPurgeSoon', event)).map(({ notice }) => notice)
  t.strictSame(await noticesOf(), ['last'], 'the first owner was told')
  const steps = ERASE_STEPS.map((step) => {
    if (step.name !== 'events.messages') return step
    const run: typeof step.run = async (...given) => {
      await giveNotices({ db, log }, signal)
      return step.run(...given)
    }
    return { ...step, run }
  })
  await eraseWhole(erasing, await ask(person), steps)
  t.strictSame(await noticesOf(), ['last', 'last'], 'the next one, also before the traces of the first one go')
  t.match(await purge(), { purged: 0 })
  t.ok(await exists('media', others))
})

t.test(
  'the erasure of a person keeps the parked notice of the next owner, and with it the purge from coming',
  async (t) => {
    await made.clear()
    const person = await aMember()
    const event = await made.anEvent({ owner: person.id })
    const park = (type: string) =>
      sql(
        `insert into parked_events (consumer, message_id, subject, stream_seq, aggregate_id, reason, attempts, event)
       values ('notifications', $1, 'there', 1, $2, 'bad', 3, jsonb_build_object('type', $3::text))`,
        [newUuid(), event, type],
      )
    for (const type of ['EventPurgeSoon', 'EventUpdated']) await park(type)
    await sql(
      `insert into parked_events (consumer, message_id, subject, stream_seq, aggregate_id, reason, attempts, event)
     values ('notifications', $1, 'there', 1, $2, 'bad', 3, '"no event of ours"')`,
      [newUuid(), event],
    )
    await eraseWhole(erasing, await ask(person))
    t.strictSame(await sql(`select event->>'type' as type from parked_events where aggregate_id = $1`, [event]), [
      { type: 'EventPurgeSoon' },
    ])
    await made.announcePurge(event)
    t.match(await purge(), { purged: 0 })
    await sql('delete from parked_events')
    t.match(await purge(), { purged: 1 })
  },
)
