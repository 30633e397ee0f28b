import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openLastUses } from '../../../api/auth/last-uses.ts'
import { type RevocationsRead, readRevocations } from '../../../api/auth/revocation-queries.ts'
import { watchRevocations } from '../../../api/auth/revocations.ts'
import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { testDatabase } from '../../support/database.ts'
import { eventually } from '../../support/eventually.ts'
import { readableLog } from '../../support/readable-log.ts'

const { log } = readableLog()

/** A watcher whose reads are made by hand. */
function watcher(t: { teardown(done: () => Promise<void>): void }, blindMs = 60_000) {
  let next: () => Promise<RevocationsRead> = async () => ({ horizon: 1n, users: [] })
  const froms: (bigint | undefined)[] = []
  const told: (Uuid | undefined)[] = []
  const revocations = watchRevocations({
    read(from) {
      froms.push(from)
      return next()
    },
    onRevoked: (user) => void told.push(user),
    log,
    timing: { everyMs: 5, blindMs },
  })
  t.teardown(() => revocations.stop())
  const read = async (made: () => Promise<RevocationsRead>) => {
    next = made
    const before = froms.length
    await eventually('two reads', () => froms.length >= before + 2)
  }
  return { revocations, read, froms, told }
}

t.test('each revocation is told once, and reads repeat from the horizon of the last one', async (t) => {
  const { revocations, read, froms, told } = watcher(t)
  t.notOk(revocations.isCurrent(), 'nothing was read yet')
  t.equal(revocations.ageSeconds(), undefined)
  revocations.start()
  const [ann, ben] = [newUuid(), newUuid()]
  await read(async () => ({ horizon: 10n, users: [{ txid: 12n, userId: ann }] }))
  t.ok(revocations.isCurrent())
  t.equal(froms.at(-1), 10n)
  await read(async () => ({
    horizon: 11n,
    users: [
      { txid: 12n, userId: ann },
      { txid: 11n, userId: ben },
    ],
  }))
  t.strictSame(told, [ann, ben], 'also one with a lower number that was committed later')
  await read(async () => ({ horizon: 20n, users: [{ txid: 21n, userId: ann }] }))
  t.strictSame(told, [ann, ben, ann])
  await read(async () => ({ horizon: 5n, users: [] }))
  t.strictSame(told, [ann, ben, ann, undefined], 'another database: anything may have ended')
})

t.test('a replica that cannot read knows it, and has everything checked', async (t) => {
  const { revocations, read, told } = watcher(t, 50)
  revocations.start()
  await read(async () => ({ horizon: 1n, users: [] }))
  await eventually('the trust', () => revocations.isCurrent())
  await read(() => Promise.reject(new Error('no database')))
  await eventually('the end of the trust', () => !revocations.isCurrent())
  await eventually('the checks, again and again', () => told.length >= 2)
  t.strictSame(new Set(told), new Set([undefined]))
  await read(async () => ({ horizon: 1n, users: [] }))
  await eventually('the trust', () => revocations.isCurrent())
})

t.test('a transaction that commits late is read all the same', async (t) => {
  const { admin, db } = await testDatabase(t)
  const [ann, ben] = [newUuid(), newUuid()]
  for (const id of [ann, ben])
    await admin.query(`insert into users (id, issuer, subject) values ($1, 'x', $2)`, [id, id])
  const revoke = `insert into revocations (user_id) values ($1)`
  const namesOf = ({ users }: RevocationsRead) => users.map(({ userId }) => userId)
  const start = await readRevocations(db.probe, undefined)
  t.strictSame(start.users, [])
  const late = await admin.connect()
  await late.query('begin')
  await late.query(revoke, [ann])
  await admin.query(revoke, [ben])
  const first = await readRevocations(db.probe, start.horizon)
  t.strictSame(namesOf(first), [ben])
  await late.query('commit')
  late.release()
  const second = await readRevocations(db.probe, first.horizon)
  t.strictSame(new Set(namesOf(second)), new Set([ann, ben]))
  // The horizon belongs to the whole server, where other transactions may be open.
  await eventually('the horizon', async () => {
    const { horizon } = await readRevocations(db.probe, second.horizon)
    return (await readRevocations(db.probe, horizon)).users.length === 0
  })
})

t.test('last uses: one for each session and minute, more only from another address', async (t) => {
  const saved: string[] = []
  let fails = true
  const uses = openLastUses({
    async save(batch) {
      saved.push(...batch.map(({ id, ip }) => `${id} ${ip}`))
      if (fails) throw new Error('no database')
    },
    log,
    timing: { writeMs: 5 },
  })
  const note = (id: string, ip: string) => uses.note(newUuid(), id, ip)
  for (let n = 0; n < 100; n++) note('phone', '203.0.113.7')
  note('laptop', '203.0.113.7')
  await eventually('the first batch', () => saved.length > 0)
  fails = false
  note('phone', '203.0.113.7')
  note('laptop', '203.0.113.8')
  await sleep(20)
  await uses.close()
  t.strictSame(saved, ['phone 203.0.113.7', 'laptop 203.0.113.7', 'laptop 203.0.113.8'])
})
