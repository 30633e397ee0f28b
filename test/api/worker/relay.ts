import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { listenForNotifications } from '../../../api/db/notification-listener.ts'
import { publishAgainAfterLoss } from '../../../api/worker/consumers/stream-loss.ts'
import { measureOutbox } from '../../../api/worker/queries.ts'
import { type RelayDeps, type RelayOptions, startRelay } from '../../../api/worker/relay.ts'
import type { CloudEvent, OutboxMessage } from '../../../lib/contract/events.ts'
import { formatId, newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import type { StoreReady } from '../../../lib/runtime/event-bus/event-bus.ts'
import { testDatabase } from '../../support/database.ts'
import { eventually } from '../../support/eventually.ts'
import { quietLog } from '../../support/quiet-log.ts'

const { worker, admin, url } = await testDatabase(t)
const org = newUuid()
const log = quietLog()

interface Row {
  id?: Uuid
  aggregate?: Uuid
  version?: number
  type?: string
  payload?: object
}
const uploaded = (media: Uuid) => ({
  media_id: formatId('media', media),
  org_id: formatId('organization', org),
  uploader_id: formatId('user', org),
  filename: 'f',
  mime_type: 'video/mp4',
  file_size: 1,
})

async function append(...rows: Row[]): Promise<void> {
  const columns = rows.map(
    ({ id = newUuid(), aggregate = newUuid(), version = 1, type = 'MediaUploaded', payload }) => {
      return { id, aggregate, version, type, payload: payload ?? uploaded(aggregate) }
    },
  )
  await admin.query(
    `insert into outbox (id, org_id, area, aggregate_id, aggregate_version, type, payload)
     select (r->>'id')::uuid, $2, 'media', (r->>'aggregate')::uuid, (r->>'version')::int, r->>'type', r->'payload'
     from jsonb_array_elements($1::jsonb) r`,
    [JSON.stringify(columns), org],
  )
}
const unpublished = async () =>
  (await admin.query('select count(*)::int as n from outbox where published_at is null')).rows[0].n as number
const allPublished = (ms?: number) => eventually('an empty outbox', async () => (await unpublished()) === 0, ms)
const rowOf = async (id: Uuid) => (await admin.query('select * from outbox where id = $1', [id])).rows[0]

/** A relay that polls so rarely that only waking it counts, unless asked otherwise, and what it published. */
function relay(deps: Partial<RelayDeps> = {}, options: RelayOptions = {}) {
  const published: { subject: string; event: CloudEvent }[] = []
  const running = startRelay(
    {
      db: worker,
      log,
      react: async () => {},
      bus: { era: () => 0, publish: async (subject, event) => void published.push({ subject, event }) },
      ...deps,
    },
    { pollMs: 10, backoff: () => 0.01, ...options },
  )
  return { ...running, published }
}

t.beforeEach(() => admin.query('delete from outbox'))

t.test('an event is reacted to, published under its subject with its own id, and marked', async (t) => {
  const order: string[] = []
  const [id, aggregate] = [newUuid(), newUuid()]
  await append({ id, aggregate, version: 7 })
  const react = async (m: OutboxMessage) => void order.push(`react ${m.aggregateId} ${m.aggregateVersion}`)
  const r = relay({ react, onPublished: (type) => order.push(type) })
  await allPublished()
  await r.stop()
  t.strictSame(order, [`react ${aggregate} 7`, 'MediaUploaded'])
  t.equal(r.published.length, 1)
  t.equal(r.published[0]?.subject, `memory.v1.media.${org}.${aggregate}.MediaUploaded`)
  t.match(r.published[0]?.event, { id: formatId('message', id), aggregate_version: 7, data: uploaded(aggregate) })
})

t.test(
  'four relays and 500 events, each step failing at random: none is lost and each aggregate is in order',
  async (t) => {
    const aggregates = Array.from({ length: 50 }, () => newUuid())
    const rows = aggregates.flatMap((aggregate) =>
      Array.from({ length: 10 }, (_, i) => ({ aggregate, version: i + 1 })),
    )
    await append(...rows.sort(() => Math.random() - 0.5))
    const heard = new Map<Uuid, number[]>()
    const stumble = (share: number) => {
      if (Math.random() < share) throw new Error('stumbled')
    }
    const react = async () => stumble(0.1)
    const publish = async (_: string, event: CloudEvent) => {
      await sleep(Math.random() * 2)
      stumble(0.1)
      const aggregate = event.subject.split('/')[1] ?? ''
      heard.set(aggregate, [...(heard.get(aggregate) ?? []), event.aggregate_version])
      stumble(0.1)
      return undefined
    }
    let failures = 0
    const share = [0, 1, 2, 3].map(() => ({ published: 0 }))
    const relays = share.map((mine) =>
      relay(
        { react, bus: { era: () => 0, publish }, onFailed: () => failures++, onPublished: () => mine.published++ },
        { concurrency: 8 },
      ),
    )
    await allPublished(120_000)
    await Promise.all(relays.map((r) => r.stop()))
    t.ok(failures > 50, 'it was a rough night')
    t.equal(
      share.reduce((sum, s) => sum + s.published, 0),
      500,
    )
    t.ok(
      share.every((s) => s.published > 20),
      'nobody starved',
    )
    t.equal(heard.size, 50)
    for (const versions of heard.values()) {
      t.strictSame([...new Set(versions)], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
      t.strictSame(
        versions,
        versions.toSorted((a, b) => a - b),
        'no version comes after a later one',
      )
    }
  },
)

t.test('a claimed event is nobody else’s until its lease ends, and then anybody’s', async (t) => {
  const id = newUuid()
  await append({ id })
  const [held, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const react = () => {
    held.resolve()
    return release.promise
  }
  // One place, and it is taken: a claim still on its way when the relay is stopped must not take the next event too.
  const first = relay({ react }, { concurrency: 1, leaseSeconds: 60, pollMs: 600_000, stepMs: 600_000 })
  await held.promise
  const stopping = first.stop()
  const leftMs = (await rowOf(id)).next_attempt_at.getTime() - Date.now()
  t.ok(leftMs > 0 && leftMs <= 60_000, `its lease ends in ${leftMs} ms`)
  const second = relay({}, { leaseSeconds: 60 })
  await append({})
  await eventually('the second to have another one', () => second.published.length > 0)
  t.not(second.published[0]?.event.id, formatId('message', id))
  t.equal(second.published.length, 1)
  await admin.query('update outbox set next_attempt_at = now() where id = $1', [id])
  await eventually('the second to have it', () => second.published.length === 2)
  await allPublished()
  release.resolve()
  await Promise.all([stopping, second.stop()])
  t.equal((await rowOf(id)).attempts, 2)
})

type Four = [
  PromiseWithResolvers<void>,
  PromiseWithResolvers<void>,
  PromiseWithResolvers<void>,
  PromiseWithResolvers<void>,
]

t.test('whoever lost the lease cannot put the event off for the one that has it', async (t) => {
  const id = newUuid()
  await append({ id })
  const [begun, tooLate, taken, go] = Array.from({ length: 4 }, () => Promise.withResolvers<void>()) as Four
  const reactSlowly = async () => {
    begun.resolve()
    await tooLate.promise
    throw new Error('too late')
  }
  const slow = relay({ react: reactSlowly }, { leaseSeconds: 0.1, backoff: () => 1000, stepMs: 600_000 })
  await begun.promise
  const stopping = slow.stop()
  const reactQuickly = () => {
    taken.resolve()
    return go.promise
  }
  const quick = relay({ react: reactQuickly }, { leaseSeconds: 600, stepMs: 600_000 })
  await taken.promise
  tooLate.resolve()
  await stopping
  t.equal((await rowOf(id)).last_error, null)
  go.resolve()
  await allPublished()
  await quick.stop()
})

t.test('a poisoned event is put off with its reason; others pass, only its own aggregate waits', async (t) => {
  const [unknown, broken, stuck] = [newUuid(), newUuid(), newUuid()]
  await append(
    { id: unknown, aggregate: stuck, version: 1, type: 'MediaExploded' },
    { aggregate: stuck, version: 2 },
    { id: broken, payload: { media_id: 7 } },
    ...Array.from({ length: 20 }, () => ({})),
  )
  const failed: string[] = []
  const startedAt = Date.now()
  const r = relay({ onFailed: (type, step) => failed.push(`${type} ${step}`) }, { backoff: () => 60, concurrency: 2 })
  await eventually('everything else', async () => (await unpublished()) === 3)
  await eventually(
    'both to be put off',
    async () => (await rowOf(unknown)).last_error && (await rowOf(broken)).last_error,
  )
  await r.stop()
  t.equal(r.published.length, 20)
  t.notOk(r.published.some((p) => p.subject.includes(stuck)))
  t.strictSame(failed.sort(), ['MediaUploaded decode', 'unknown decode'])
  t.match((await rowOf(unknown)).last_error, /^decode: There is no event type MediaExploded/)
  t.match((await rowOf(broken)).last_error, /^decode: /)
  t.ok((await rowOf(broken)).next_attempt_at.getTime() >= startedAt + 60_000)
})

t.test('an event that hangs takes one place and comes again, the others pass', async (t) => {
  const hanging = newUuid()
  await append({ aggregate: hanging }, ...Array.from({ length: 20 }, () => ({})))
  let hangs = 0
  let isMended = false
  const react = async (m: OutboxMessage) => {
    if (m.aggregateId !== hanging || isMended) return
    hangs += 1
    await new Promise(() => {})
  }
  const r = relay({ react }, { concurrency: 2, stepMs: 100 })
  await eventually('the others', () => r.published.length === 20)
  await eventually('it to come again', () => hangs >= 2)
  t.equal(r.published.length, 20)
  isMended = true
  await allPublished()
  await r.stop()
  t.equal(r.published.length, 21)
})

t.test('events whose reactions hang leave half of the places to the others', async (t) => {
  const hang = Promise.withResolvers<void>()
  let reacting = 0
  const react = async ({ type }: OutboxMessage) => {
    if (type !== 'MediaUploaded') return
    reacting += 1
    await hang.promise
  }
  await append(...Array.from({ length: 10 }, () => ({})))
  const r = relay({ react, reactsTo: ['MediaUploaded'] }, { concurrency: 4 })
  await eventually('the first reactions', () => reacting > 0)
  const media = newUuid()
  const payload = { media_id: formatId('media', media), org_id: formatId('organization', org) }
  const others = Array.from({ length: 6 }, () => ({ type: 'MediaPurged', payload }))
  await append(...others)
  await eventually('the others', () => r.published.length === others.length)
  t.equal(reacting, 2)
  hang.resolve()
  await allPublished()
  await r.stop()
  t.equal(reacting, 10)
})

t.test('while reactions have all of their places, only what is new has the outbox read for others', async (t) => {
  let emptyClaims = 0
  const db: typeof worker = {
    ...worker,
    async inTransaction(scope, work) {
      const result = await worker.inTransaction(scope, work)
      if (Array.isArray(result) && result.length === 0) emptyClaims += 1
      return result
    },
  }
  const rows = Array.from({ length: 20 }, () => ({}))
  await append(...rows)
  const gates: PromiseWithResolvers<void>[] = []
  const react = ({ type }: OutboxMessage) => {
    if (type !== 'MediaUploaded') return Promise.resolve()
    const gate = Promise.withResolvers<void>()
    gates.push(gate)
    return gate.promise
  }
  const options = { concurrency: 4, pollMs: 600_000, stepMs: 600_000 }
  const r = relay({ db, react, reactsTo: ['MediaUploaded'] }, options)
  await eventually('the first reactions', () => gates.length === 2)
  for (let done = 0; done < 10; done++) {
    gates[done]?.resolve()
    await eventually('the next reaction', () => gates.length === done + 3)
  }
  t.ok(emptyClaims < 5, `${emptyClaims} claims found nothing`)
  const media = newUuid()
  const payload = { media_id: formatId('media', media), org_id: formatId('organization', org) }
  await append(...[1, 2, 3].map((version) => ({ type: 'MediaPurged', aggregate: media, version, payload })))
  r.wake()
  await eventually('the others, one after the other', () => r.published.length === 13)
  let opened = 10
  await eventually('the rest', () => {
    while (opened < gates.length) gates[opened++]?.resolve()
    return r.published.length === rows.length + 3
  })
  await r.stop()
})

t.test('a reaction that succeeded is not called again because the publication failed', async (t) => {
  const calls = new Map<string, number>()
  const react = async ({ aggregateId: id }: OutboxMessage) => {
    const n = (calls.get(id) ?? 0) + 1
    calls.set(id, n)
    if (id === refused && n < 3) throw new Error('not yet')
  }
  let failures = 0
  const publish = async () => {
    if (failures++ < 10) throw new Error('away')
    return undefined
  }
  const [refused, other] = [newUuid(), newUuid()]
  await append({ aggregate: refused }, { aggregate: other })
  const r = relay({ react, reactsTo: ['MediaUploaded'], bus: { era: () => 0, publish } }, { concurrency: 2 })
  await allPublished()
  await r.stop()
  t.strictSame(Object.fromEntries(calls), { [refused]: 3, [other]: 1 })
})

t.test('without the event server, reactions are called once and nothing else is tried until it is back', async (t) => {
  let away = true
  const published: string[] = []
  const publish = async (_: string, event: CloudEvent) => {
    if (away) throw new Error('away')
    return void published.push(event.id)
  }
  const reacted: Uuid[] = []
  const react = async ({ id, type }: OutboxMessage) => void (type === 'MediaUploaded' && reacted.push(id))
  const [first, second, waiting, next] = [newUuid(), newUuid(), newUuid(), newUuid()]
  const media = newUuid()
  const payload = { media_id: formatId('media', media), org_id: formatId('organization', org) }
  await append({ id: first }, { id: waiting, type: 'MediaPurged', payload })
  const bus = { era: () => 0, publish, isAway: () => away }
  const lines: string[] = []
  const loud = quietLog()
  loud.warn = loud.error = (...line: unknown[]) => void lines.push(JSON.stringify(line))
  const r = relay({ react, reactsTo: ['MediaUploaded'], bus, log: loud }, { concurrency: 2 })
  const isPutOff = (id: Uuid) =>
    eventually('it to wait', async () => /^publish: away/.test((await rowOf(id)).last_error))
  await isPutOff(first)
  // Found by a poll, behind many polls that have found nothing.
  await append(
    { id: next, type: 'MediaPurged', payload: { ...payload, media_id: formatId('media', next) } },
    { id: second },
  )
  await isPutOff(second)
  const attemptsOf = async (id: Uuid) => (await rowOf(id)).attempts as number
  t.strictSame(await Promise.all([first, second, waiting, next].map(attemptsOf)), [1, 1, 0, 0])
  t.strictSame(lines, [])
  away = false
  await allPublished()
  await r.stop()
  t.equal(published.length, 4)
  t.strictSame(reacted, [first, second])
})

t.test('a notification wakes the relay long before it polls, also after the connection was cut', async (t) => {
  const r = relay({}, { pollMs: 600_000 })
  const listener = listenForNotifications({ url, channels: { outbox: r.wake }, log })
  const backends = () =>
    admin.query(`select pid from pg_stat_activity where application_name = 'keepsake_worker listen' and query like 'listen%'
      and datname = current_database()`)
  const listening = () => eventually('a listener', async () => (await backends()).rows[0]?.pid as number | undefined)
  /** The second one finds a relay that has nothing left to look for. */
  const twoAreFound = async () => {
    for (let i = 0; i < 2; i++) {
      const before = r.published.length
      await append({})
      await eventually('the event', () => r.published.length > before)
    }
  }
  const first = await listening()
  await twoAreFound()

  await admin.query('select pg_terminate_backend($1)', [first])
  await append({})
  await eventually('what was announced while nobody listened', () => r.published.length === 3)
  await eventually('another listener', async () => (await listening()) !== first)
  await twoAreFound()
  await Promise.all([listener.close(), r.stop()])
  await eventually('the end of its connection', async () => (await backends()).rowCount === 0)
  t.equal(r.published.length, 5)
})

t.test('the poll finds what nobody announced', async (t) => {
  const r = relay({}, { pollMs: 20 })
  await sleep(50)
  await append({})
  await eventually('the event', () => r.published.length === 1)
  await r.stop()
  t.pass('published')
})

t.test('the database going away in the middle costs time and nothing else', async (t) => {
  await append(...Array.from({ length: 200 }, () => ({})))
  const seen = new Set<string>()
  const publish = async (_: string, event: CloudEvent) => {
    await sleep(5)
    seen.add(event.id)
    return undefined
  }
  const r = relay({ bus: { era: () => 0, publish } }, { leaseSeconds: 0.5 })
  for (let i = 0; i < 3; i++) {
    await eventually('some more', () => seen.size > i * 50 + 20)
    await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'keepsake_worker' and datname = current_database()`)
  }
  await allPublished()
  await r.stop()
  t.equal(seen.size, 200)
})

t.test('an event is published in the era in which it was claimed', async (t) => {
  let era = 0
  const eras: (number | undefined)[] = []
  // As if the stream was lost after the claim.
  const react = async () => {
    era += 1
  }
  const bus: RelayDeps['bus'] = { era: () => era, publish: async (_, __, given) => eras.push(given) }
  const r = relay({ react, bus })
  await append({})
  await allPublished()
  await append({})
  await allPublished()
  await r.stop()
  t.strictSame(eras, [0, 1])
})

t.test('stopping settles what was begun and begins nothing', async (t) => {
  await append(...Array.from({ length: 10 }, () => ({})))
  let begun = 0
  const release = Promise.withResolvers<void>()
  const react = () => {
    begun += 1
    return release.promise
  }
  const r = relay({ react }, { concurrency: 2 })
  await eventually('two to begin', () => begun === 2)
  const stopping = r.stop()
  release.resolve()
  await stopping
  t.equal(begun, 2)
  t.equal(r.published.length, 2)
  t.match(await worker.read({}, measureOutbox), { unpublished: 8, oldestSeconds: /^[0-9.]+$/ })
})

for (const pollMs of [10, 60_000]) {
  t.test(`an event under way when the stream was lost is published again, polled for each ${pollMs} ms`, async (t) => {
    let prepare: ((store: StoreReady) => Promise<boolean>) | undefined
    const onStoreReady = (given: typeof prepare) => {
      prepare = given
    }
    publishAgainAfterLoss({ db: worker, log, bus: { onStoreReady } }, [])
    const sameStream = { owner: undefined, claim: async () => {}, hasStill: async () => true, restart: async () => {} }
    const found = (day: number) =>
      prepare?.({ createdAt: new Date(Date.UTC(2026, pollMs % 7, day)), wasAway: true, ...sameStream })
    await found(1)
    const stored = Promise.withResolvers<void>()
    let published = 0
    // The old stream has stored it; the relay hears of that late.
    const publish = async () => {
      published += 1
      if (published === 1) await stored.promise
      return undefined
    }
    await append({})
    const r = relay({ bus: { era: () => 0, publish } }, { pollMs })
    await eventually('the first publication', () => published === 1)
    await found(2)
    // Perhaps claimed again, while the first publication is still under way.
    const attempts = async () => (await admin.query('select attempts from outbox')).rows[0].attempts as number
    await eventually('the next claim', async () => (await attempts()) === (pollMs === 10 ? 3 : 2))
    stored.resolve()
    await allPublished()
    await r.stop()
    t.equal(published, 2)
  })
}
