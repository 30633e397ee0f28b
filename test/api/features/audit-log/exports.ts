import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { shredPersonKeys } from '../../../../api/audit/key-queries.ts'
import { csvField } from '../../../../api/features/audit-log/csv-plan.ts'
import { auditLogPart } from '../../../../api/features/audit-log/erasure.ts'
import { eraseAuditExportsOf } from '../../../../api/features/audit-log/export-commands.ts'
import { startExporter } from '../../../../api/features/audit-log/exporter.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { systemClock } from '../../../../lib/runtime/clock.ts'
import { MIN_PART_BYTES } from '../../../../lib/runtime/object-store/object-store.ts'
import { aPerson, pathOf, startTestApi, uuidOf } from '../../../support/api.ts'
import { addEntries, daysAgo, makePastDays, sealAll } from '../../../support/audit-log.ts'
import { eventually } from '../../../support/eventually.ts'
import { testPersonalData } from '../../../support/personal-data.ts'
import { quickStart } from '../../../support/quick-start.ts'
import { quietLog } from '../../../support/quiet-log.ts'

const CHILD = fileURLToPath(new URL('../../../support/dying-exporter.ts', import.meta.url))

const api = await startTestApi(t)
const { call, people, database, store, config } = api
const { admin, worker } = database
const root = people.platformAdmin
await makePastDays(admin, 40)
const personalData = testPersonalData(worker)

const request = (json: object, who = root) => call(who, 'POST', '/admin/audit/export', { json })
const show = (id: string, who = root) => call(who, 'GET', `/admin/audit/export/${id}`)
const rowOf = async (id: string) =>
  (await admin.query('select * from audit_exports where id = $1', [uuidOf('export', id)])).rows[0]

function exporter(t: { teardown(done: () => Promise<void>): void }, options = {}, given = {}) {
  const deps = { db: worker, store, personalData, log: quietLog(), clock: systemClock, ...given }
  const started = startExporter(deps, { partBytes: MIN_PART_BYTES, pageEntries: 100, idleMs: 50, ...options })
  t.teardown(() => started.stop())
  return started
}
const completed = (id: string, who = root) =>
  eventually(`the end of ${id}`, async () => {
    const { data } = await show(id, who)
    return data.status === 'processing' ? undefined : data
  })
async function got(path: string) {
  const response = await fetch(`${api.publicUrl}${path}`)
  return { status: response.status, headers: response.headers, arrayBuffer: await response.arrayBuffer() }
}
const download = async (data: { download_url: string }) => {
  const { status, headers, arrayBuffer } = await got(pathOf(data.download_url))
  t.equal(status, 200)
  return { text: Buffer.from(arrayBuffer).toString(), headers }
}

/** Runs the step of an erasure that is about exports of others. */
async function erase(userId: Uuid) {
  const step = auditLogPart.erase?.find(({ name }) => name === 'audit.exports-of-others')
  if (!step) throw new Error('no such step')
  return step.run(...([{ ...api, db: worker, store }, { userId }] as unknown as Parameters<typeof step.run>))
}

/** A person whose entries are as many bytes in a file: several parts of an upload. */
async function aBusyPerson(megabytes: number) {
  const actorId = newUuid()
  await admin.query(
    `insert into audit_log (id, actor_id, action, resource_type, result, details, occurred_at)
    select gen_random_uuid(), $1, 'LOGIN', 'session', 'success', jsonb_build_object('n', n, 'filler', repeat('x', 20000)),
      now() - n * interval '1 hour' from generate_series(1, $2::int) n`,
    [actorId, megabytes * 50],
  )
  await sealAll(admin)
  return { actorId, wire: formatId('user', actorId), entries: megabytes * 50 }
}

t.test('an export is its person’s, of a platform administrator, and an entry', async (t) => {
  t.equal((await request({ format: 'csv' }, people.owner)).status, 404)
  t.equal((await request({ format: 'xls' })).status, 400)
  const { status, data } = await request({ format: 'json', actor_id: people.owner.wireId, ip_address: '203.0.113.9' })
  t.equal(status, 201)
  t.match(data, { status: 'processing', format: 'jsonl', download_url: null, progress: { entries: 0 } })
  const other = await aPerson(api, ['ROLE_ADMIN'])
  t.equal((await show(data.export_id, other)).status, 404)
  t.equal((await show(data.export_id, people.owner)).status, 404)
  const { rows } = await admin.query(`select resource_id, details from audit_log where resource_type = 'export'`)
  t.strictSame(rows, [
    {
      resource_id: uuidOf('export', data.export_id),
      details: {
        operation: 'export audit log',
        format: 'jsonl',
        filter_actor_id: people.owner.wireId,
        filter_ip_address: true,
      },
    },
  ])
  exporter(t)
  t.match(await completed(data.export_id), { status: 'completed', progress: { entries: 0, bytes: 0 } })
  t.notOk('ipAddress' in (await rowOf(data.export_id)).filters, 'the address is forgotten')
})

t.test('a field never begins as a formula does, and every field is quoted', async (t) => {
  for (const [given, written] of [
    ['=1+1', `"'=1+1"`],
    ['+1', `"'+1"`],
    ['-1', `"'-1"`],
    ['@SUM(A1)', `"'@SUM(A1)"`],
    ['\tx', `"'\tx"`],
    ['\r\n=x', `"'\r\n=x"`],
    ['\n', `"'\n"`],
    ['\0', `"'\0"`],
    ['\uFF1D1', `"'\uFF1D1"`],
    ['\uFF0B1', `"'\uFF0B1"`],
    ['\uFF0D1', `"'\uFF0D1"`],
    ['\uFF201', `"'\uFF201"`],
    [-1, `"'-1"`],
    ['say "hi", you', `"say ""hi"", you"`],
    [null, '""'],
    [true, '"true"'],
    [{ a: '=1' }, `"{""a"":""=1""}"`],
  ] as const) {
    t.equal(csvField(given), written)
  }
})

t.test('CSV is for spreadsheets, JSON Lines is exact; a mail tells that it is ready', async (t) => {
  const actorId = newUuid()
  const id = newUuid()
  const box = await personalData.encrypt(
    { entryId: id, personId: actorId },
    { ipAddress: '203.0.113.7', userAgent: '=HYPERLINK("http://x")' },
  )
  const given = { personal: box?.personal ?? null, keyVersion: box?.keyVersion ?? null }
  const [older = ''] = await addEntries(admin, [{ actorId, at: daysAgo(9), details: { operation: 'x' } }])
  await addEntries(admin, [{ id, actorId, at: daysAgo(3), ...given }])
  await sealAll(admin)
  exporter(t)
  const ready = async (format: string) => {
    const { data } = await request({ format, actor_id: actorId })
    return completed(data.export_id)
  }
  const csv = await download(await ready('csv'))
  t.equal(csv.headers.get('content-type'), 'text/csv; charset=utf-8')
  t.match(csv.headers.get('content-disposition'), /attachment; filename="?audit-log-.*\.csv/)
  const lines = csv.text.split('\r\n')
  t.equal(lines.length, 4, 'a head, two entries, and the last line feed')
  t.equal(lines[0]?.slice(0, 12), '\uFEFF"audit_id",')
  t.match(lines[1], `"${formatId('audit', id)}","${daysAgo(3)}"`)
  t.match(lines[1], `"203.0.113.7","'=HYPERLINK(""http://x"")"`)
  const jsonl = (await download(await ready('jsonl'))).text
  const read = jsonl
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  const { data } = await call(root, 'POST', '/admin/audit/query', { json: { actor_id: actorId } })
  t.strictSame(read, data.logs, 'as a query shows them')
  t.equal(read[1].audit_id, formatId('audit', older))
  const { rows } = await admin.query(`select count(*)::int as n from notifications where user_id = $1`, [root.id])
  t.ok(rows[0].n >= 2, 'the notification service has them')
})

t.test('killed at any step, the next worker goes on after the last part', async (t) => {
  const { wire, entries, actorId } = await aBusyPerson(14)
  const whole = await request({ format: 'jsonl', actor_id: wire })
  const stop = exporter(t)
  const expected = await download(await completed(whole.data.export_id))
  await stop.stop()
  t.equal(expected.text.trimEnd().split('\n').length, entries)
  let arrived = 0
  for (const [failpoint, parts] of [
    ['audit-export.claimed', 0],
    ['audit-export.upload-begun', 0],
    ['audit-export.part-stored:2', 1],
    ['audit-export.part-recorded:2', 2],
    ['audit-export.stored', 3],
  ] as const) {
    const { data } = await request({ format: 'jsonl', actor_id: wire })
    const child = spawn(process.execPath, [CHILD, database.url, config.STORE_FOLDER ?? '', failpoint], {
      env: { PATH: process.env['PATH'], ...quickStart() },
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    t.teardown(() => void child.kill('SIGKILL'))
    const [, signal] = await once(child, 'close')
    t.equal(signal, 'SIGKILL', failpoint)
    const left = await rowOf(data.export_id)
    t.match(left, { state: 'processing', failures: parts > 0 ? 0 : 1 })
    t.equal(left.etags.length, parts, `${parts} parts are kept`)
    // Arrives while no worker works on the export.
    await addEntries(admin, [{ actorId, at: new Date().toISOString() }])
    await sealAll(admin)
    await admin.query('update audit_exports set lease_until = now() where id = $1', [left.id])
    const next = exporter(t)
    const done = await completed(data.export_id)
    await next.stop()
    t.match(done, { status: 'completed', progress: { entries: entries + arrived } })
    t.equal((await rowOf(data.export_id)).attempts, 1, `${failpoint}: in the same upload`)
    const made = await download(done)
    t.ok(made.text.endsWith(expected.text), `${failpoint}: the same bytes`)
    t.equal(made.text.trimEnd().split('\n').length, entries + arrived, 'what arrived since the request is not in it')
    arrived += 1
    t.equal((await api.keys(`downloads/${root.id}/${left.id}/`)).length, 1, 'one object')
  }
})

t.test('a worker that was too late changes nothing, and an export that was erased leaves no file', async (t) => {
  const { wire } = await aBusyPerson(6)
  const { data } = await request({ format: 'jsonl', actor_id: wire })
  let isHeld = true
  const slow = {
    ...store,
    async completeMultipart(...given: Parameters<typeof store.completeMultipart>) {
      await eventually('the erasure', () => !isHeld)
      return store.completeMultipart(...given)
    },
  }
  const late = startExporter(
    { db: worker, store: slow, personalData, log: quietLog(), clock: systemClock },
    { partBytes: MIN_PART_BYTES, pageEntries: 100 },
  )
  t.teardown(() => late.stop())
  await eventually('its parts', async () => (await rowOf(data.export_id)).etags.length === 2)
  await worker.inTransaction({}, (tx) => eraseAuditExportsOf(tx, root.id))
  isHeld = false
  await late.stop()
  t.equal((await show(data.export_id)).status, 404)
  t.strictSame(await api.keys(`downloads/${root.id}/${uuidOf('export', data.export_id)}/`), [])
})

t.test('a worker that stalls behind the completion leaves the file to the one that took over', async (t) => {
  const { wire, entries } = await aBusyPerson(6)
  const { data } = await request({ format: 'jsonl', actor_id: wire })
  const [stored, taken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const slow = {
    ...store,
    async completeMultipart(...given: Parameters<typeof store.completeMultipart>) {
      const made = await store.completeMultipart(...given)
      stored.resolve()
      await taken.promise
      return made
    },
  }
  const late = startExporter(
    { db: worker, store: slow, personalData, log: quietLog(), clock: systemClock },
    { partBytes: MIN_PART_BYTES, pageEntries: 100 },
  )
  t.teardown(() => late.stop())
  await stored.promise
  await admin.query('update audit_exports set lease_until = now() where id = $1', [uuidOf('export', data.export_id)])
  exporter(t)
  const done = await completed(data.export_id)
  taken.resolve()
  await late.stop()
  const { text } = await download(done)
  t.equal(text.trimEnd().split('\n').length, entries)
})

t.test('an erasure leaves exports alone that can have no entry of the person', async (t) => {
  await admin.query('delete from audit_exports')
  const [actorId, another] = [newUuid(), newUuid()]
  await addEntries(admin, [
    { actorId, at: daysAgo(30) },
    { actorId: another, at: daysAgo(2) },
  ])
  await sealAll(admin)
  await addEntries(admin, [{ actorId, at: daysAgo(2) }])
  const old = { from: daysAgo(31), to: daysAgo(29) }
  const recent = { from: daysAgo(10), to: daysAgo(1) }
  const given = (id: Uuid) => ({ actor_id: formatId('user', id) })
  const cases: [json: object, isTheirs: boolean][] = [
    [{}, true],
    [given(actorId), true],
    [given(another), false],
    [old, true],
    [{ ...old, ...given(another) }, false],
    [recent, true],
    [{ ...recent, ...given(another), include_unsealed: true }, false],
    [{ from: daysAgo(29), to: daysAgo(10) }, false],
    [{ from: daysAgo(1) }, false],
    [{ to: daysAgo(29) }, true],
    [{ to: daysAgo(31) }, false],
  ]
  const made = async (json: object) => (await request({ format: 'jsonl', ...json })).data.export_id as string
  const underWay = await Promise.all(cases.map(([json]) => made(json)))
  const ready = await Promise.all(cases.map(([json]) => made(json)))
  for (const id of ready) {
    await admin.query(`update audit_exports set state = 'completed' where id = $1`, [uuidOf('export', id)])
  }
  await admin.query(`update audit_exports set etags = '{one}' where state = 'processing'`)
  await worker.inTransaction({}, (tx) => shredPersonKeys(tx, actorId))
  const ended = await erase(actorId)
  t.match(ended, { counts: { audit_exports: cases.filter(([, isTheirs]) => isTheirs).length } })
  for (const [n, [json, isTheirs]] of cases.entries()) {
    const [going, over] = [await rowOf(underWay[n] ?? ''), await rowOf(ready[n] ?? '')]
    t.strictSame([going.etags.length === 0, over === undefined], [isTheirs, isTheirs], JSON.stringify(json))
  }

  const purged = await made({ to: daysAgo(31) })
  await admin.query(`insert into audit_archives (day, tier, object_key, entries, late, bytes, sha256, members,
    previous_sha256, manifest_sha256) values (current_date - 32, 'purged', 'k', 1, 0, 1, '', '[]', '', '')`)
  await admin.query(`update audit_exports set state = 'completed'`)
  await erase(actorId)
  t.equal(await rowOf(purged), undefined, 'no one knows who did something on a purged day')
  await admin.query('delete from audit_archives; delete from audit_exports')
})

t.test('an erasure ends the exports of others that are ready, and has those under way begin again', async (t) => {
  await admin.query('delete from audit_exports')
  const { wire, actorId, entries } = await aBusyPerson(6)
  const id = newUuid()
  const box = await personalData.encrypt({ entryId: id, personId: actorId }, { ipAddress: '203.0.113.7' })
  const given = { personal: box?.personal ?? null, keyVersion: box?.keyVersion ?? null }
  await addEntries(admin, [{ id, actorId, at: daysAgo(20), ...given }])
  await sealAll(admin)
  const first = exporter(t)
  const other = await aPerson(api, ['ROLE_ADMIN'])
  const ready = (await request({ format: 'jsonl', actor_id: wire }, other)).data.export_id
  const { text } = await download(await completed(ready, other))
  t.match(text, '203.0.113.7')
  await first.stop()

  const { data } = await request({ format: 'jsonl', actor_id: wire })
  const row = () => rowOf(data.export_id)
  const isErased = Promise.withResolvers<void>()
  const slow = {
    ...store,
    async completeMultipart(...given: Parameters<typeof store.completeMultipart>) {
      await isErased.promise
      return store.completeMultipart(...given)
    },
  }
  // Has the key of the person in memory: no notification tells it.
  const late = exporter(t, {}, { store: slow })
  await eventually('its parts', async () => (await row()).etags.length === 2)
  t.match(await erase(actorId), { isWaiting: true }, 'as long as the keys of the person are there')
  t.equal((await row()).etags.length, 2)
  await worker.inTransaction({}, (tx) => shredPersonKeys(tx, actorId))
  t.match(await erase(actorId), { counts: { audit_exports: 1 } })
  t.match(await erase(actorId), { counts: { audit_exports: 0 } }, 'again')
  t.equal((await show(ready, other)).status, 404)
  t.strictSame(await api.keys(`downloads/${other.id}/`), [])
  isErased.resolve()
  const done = await completed(data.export_id)
  await late.stop()
  t.match(done, { status: 'completed', progress: { entries: entries + 1 } })
  const made = await download(done)
  t.equal(made.text.trimEnd().split('\n').length, entries + 1)
  t.notMatch(made.text, '203.0.113.7')
  t.equal((await api.keys(`downloads/${root.id}/${uuidOf('export', data.export_id)}/`)).length, 1, 'one object')
})
