import { request } from 'node:http'
import t, { type Test } from 'tap'
import { formatId, newUuid } from '../../../lib/contract/ids.ts'
import { isRunning, startApiProcesses } from '../../support/api-processes.ts'
import { testDatabase } from '../../support/database.ts'
import { eventually } from '../../support/eventually.ts'
import { startTestIdentity } from '../../support/identity.ts'

/** The program as it runs in a pod, with several processes on one port. */
const world = { database: await testDatabase(t), identity: await startTestIdentity(t) }
const start = (t: Test, settings: Record<string, string> = {}) => startApiProcesses(t, world, settings)

/** The values of a metric by the process that has them, those with other labels added up. */
function valuesOf(text: string, name: string, labels = ''): Record<string, number> {
  const values: Record<string, number> = {}
  for (const [, all = '', value] of text.matchAll(new RegExp(`^${name}\\{(.*)\\} (\\S+)$`, 'gm'))) {
    const process = /process="(\w+)"/.exec(all)?.[1] ?? 'none'
    if (all.includes(labels)) values[process] = (values[process] ?? 0) + Number(value)
  }
  return values
}

const sum = (values: Record<string, number>) => Object.values(values).reduce((a, b) => a + b, 0)

t.test('processes share a port, their metrics add up, and each counts limits as a replica does', async (t) => {
  const api = await start(t, { RATE_LIMIT_FACTOR: '1' })
  await api.isReady()
  t.equal(api.pids().length, 2)
  const answers: { remaining: string | null; id: string | null }[] = []
  for (let n = 0; n < 20; n++) {
    const { status, headers } = await api.get('/health')
    t.equal(status, 200)
    answers.push({ remaining: headers.get('ratelimit'), id: headers.get('x-request-id') })
  }
  t.equal(new Set(answers.map(({ id }) => id)).size, answers.length, 'each request has an id of its own')
  t.ok(new Set(answers.map(({ remaining }) => remaining)).size < answers.length, 'two count, not one')

  const text = await api.metrics()
  const served = valuesOf(text, 'http_request_duration_seconds_count', 'route="/health"')
  t.strictSame(Object.keys(served).sort(), ['1', '2'], 'both have served')
  t.equal(sum(served), answers.length)
  t.strictSame(Object.keys(valuesOf(text, 'process_resident_memory_bytes')).sort(), ['1', '2', 'supervisor'])
  t.strictSame(Object.keys(valuesOf(text, 'process_start_time_seconds')).sort(), ['1', '2', 'supervisor'])
  t.equal(text.match(/^# HELP http_request_duration_seconds /gm)?.length, 1)
  t.notMatch(text, /null|undefined/)
  const lines = api.logged.filter(({ request_id: id }) => answers.some((answer) => answer.id === id))
  t.strictSame(
    [lines.length, new Set(lines.map((line) => line['process'])).size],
    [answers.length, 2],
    'the access log',
  )
})

t.test('a process that dies is replaced; until then the replica serves and is not ready', async (t) => {
  const api = await start(t)
  await api.isReady()
  const before = api.pids()
  const [dead = 0, other = 0] = before
  process.kill(dead, 'SIGKILL')
  // One connection may have been on its way to the process that died: it gets no answer.
  const first = () => Promise.race([api.probe('/readyz'), api.probe('/readyz')])
  await eventually('the replica is not ready', async () => (await first()) === 503)
  t.equal(await api.probe('/livez'), 200, 'no reason to end the other one')
  t.equal((await api.get('/health')).status, 200)
  await api.isReady()
  t.ok(isRunning(other))
  t.strictSame([api.pids().length, api.pids().includes(dead)], [2, false])
  t.strictSame(valuesOf(await api.metrics(), 'api_processes_died_total'), { supervisor: 1 })
  api.child.kill('SIGTERM')
  t.strictSame(await api.exited, [0, null])
})

t.test('SIGTERM drains all: not ready at once, requests are served, and those that run get their answer', async (t) => {
  const api = await start(t, { DRAIN_SECONDS: '3' })
  await api.isReady()
  const pids = api.pids()
  const running = [await slowUpload(api.port), await slowUpload(api.port)]
  api.child.kill('SIGTERM')
  await eventually('the replica is not ready', async () => (await api.probe('/readyz')) === 503)
  t.equal((await api.get('/openapi.json')).status, 200, 'still served')
  await eventually('new connections are refused', () =>
    api.get('/openapi.json').then(
      () => false,
      () => true,
    ),
  )
  t.ok(pids.every(isRunning), 'both wait for their request')
  for (const finish of running) t.equal(await finish(), 415, 'no picture: an answer of the API')
  t.strictSame(await api.exited, [0, null])
  t.notOk(pids.some(isRunning))
  t.equal(api.errors(), '')
})

t.test('processes end with the one that started them', async (t) => {
  const api = await start(t)
  await api.isReady()
  const pids = api.pids()
  api.child.kill('SIGKILL')
  await eventually('both have ended', () => !pids.some(isRunning))
})

t.test('a process that does not answer makes the replica neither alive nor ready', async (t) => {
  const api = await start(t)
  await api.isReady()
  const [stuck = 0] = api.pids()
  process.kill(stuck, 'SIGSTOP')
  // A connection may be dealt to the one that is stuck: that probe fails without an answer.
  for (const path of ['/livez', '/readyz']) {
    await eventually(`${path} fails`, async () => (await api.probe(path, 6000)) === 503)
  }
  t.strictSame(
    Object.keys(valuesOf(await api.metrics(), 'process_resident_memory_bytes')).length,
    2,
    'of those that answer',
  )
  process.kill(stuck, 'SIGCONT')
  await api.isReady()
  t.equal(await api.probe('/livez'), 200)
})

t.test('the program ends with an error when processes die again and again', async (t) => {
  const api = await start(t, { API_PROCESSES: '3' })
  for (let round = 0; round < 2; round++) {
    await api.isReady()
    for (const pid of api.pids()) process.kill(pid, 'SIGKILL')
    await eventually(
      'all have ended',
      () => api.logged.filter(({ msg }) => msg === 'a process ended').length >= 3 * round + 3,
    )
  }
  t.strictSame(await api.exited, [1, null])
  t.ok(api.logged.some(({ level, msg }) => level === 'fatal' && msg === 'processes end again and again'))
})

t.test('the program ends with an error when a process cannot start', async (t) => {
  const first = await start(t)
  await first.isReady()
  const second = await start(t, { PORT: String(first.port) })
  t.strictSame(await second.exited, [1, null])
  t.match(JSON.stringify(second.logged) + second.errors(), /EADDRINUSE/)
  t.equal((await first.get('/health')).status, 200)
})

t.test('more processes than the settings can be shared by are a mistake', async (t) => {
  const api = await start(t, { API_PROCESSES: '6', MAX_BODIES: '5' })
  t.strictSame(await api.exited, [1, null])
  for (const name of ['DATABASE_CONNECTIONS', 'API_PROCESSES']) t.match(api.errors(), new RegExp(`^ {2}${name}`, 'm'))
})

/** A file of a member whose last bytes arrive only when they are asked to: an API waits half a minute for them. */
async function slowUpload(port: number) {
  const [orgId, userId] = [newUuid(), newUuid()]
  const { database, identity } = world
  await database.admin.query('insert into organizations (id, name) values ($1, $2)', [orgId, 'Slow'])
  await database.admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [
    userId,
    identity.issuer,
    userId,
  ])
  await database.admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'owner')`, [
    orgId,
    userId,
  ])
  const token = await identity.token({ sub: userId, roles: ['ROLE_USER'] })
  const path = `/v1/api/media/${formatId('organization', orgId)}/single`
  const req = request({ port, host: '127.0.0.1', method: 'POST', path, agent: false })
  const [head, tail] = [
    '--x\r\nContent-Disposition: form-data; name="file"; filename="a.jpg"\r\n\r\n',
    'no\r\n--x--\r\n',
  ]
  req.setHeader('authorization', `Bearer ${token}`)
  req.setHeader('content-type', 'multipart/form-data; boundary=x')
  req.setHeader('content-length', head.length + tail.length)
  const status = new Promise<number | undefined>((resolve, reject) => {
    req.on('response', (res) => resolve(res.resume().statusCode)).on('error', reject)
  })
  await new Promise<void>((resolve) => void req.write(head, () => resolve()))
  return () => {
    req.end(tail)
    return status
  }
}
