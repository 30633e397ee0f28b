import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { isRunning, startApiProcesses } from '../../support/api-processes.ts'
import { testDatabase } from '../../support/database.ts'
import { eventually } from '../../support/eventually.ts'
import { startTestIdentity } from '../../support/identity.ts'
import { noIpv6 } from '../../support/ipv6.ts'
import { slowUpload } from '../../support/slow-upload.ts'

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

/** Not too often: each look asks all processes. */
const untilAnswered = (what: string, look: () => Promise<boolean>) => eventually(what, look, 120_000, 50)

const sum = (values: Record<string, number>) => Object.values(values).reduce((a, b) => a + b, 0)

/** One program for all that leaves it as it was; the last of these tests ends it. */
const api = await start(t, { RATE_LIMIT_FACTOR: '1', HOST: '' })
await api.isReady()

t.test('processes share a port, their metrics add up, and each counts limits as a replica does', async (t) => {
  t.equal(api.pids().length, 2)
  const answers: { remaining: string | null; id: string | null }[] = []
  for (let n = 0; n < 20; n++) {
    const { status, headers } = await api.get('/health')
    t.equal(status, 200)
    answers.push({ remaining: headers.get('ratelimit'), id: headers.get('x-request-id') })
  }
  t.equal(new Set(answers.map(({ id }) => id)).size, answers.length, 'each request has an id of its own')
  const remaining = answers.map((answer) => Number(/r=(\d+)/.exec(answer.remaining ?? '')?.[1]))
  t.ok(Math.min(...remaining) >= 89, `two count, not one: ${remaining}`)
  for (const pid of api.pids()) {
    const options = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0')
    t.equal(options.filter((option) => /^--max-heap-size=\d+$/.test(option)).length, 1, 'its part of the memory')
  }

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

t.test('without HOST they share a port of IPv6, too', { skip: noIpv6 }, async (t) => {
  const answers = Array.from({ length: 4 }, () =>
    fetch(`http://[::1]:${api.port}/health`, { headers: { connection: 'close' } }),
  )
  for (const { status } of await Promise.all(answers)) t.equal(status, 200)
})

t.test('a process that does not answer makes the replica not alive, which is ready', async (t) => {
  const [stuck = 0] = api.pids()
  process.kill(stuck, 'SIGSTOP')
  t.teardown(() => void (isRunning(stuck) && process.kill(stuck, 'SIGCONT')))
  // A connection may be dealt to the one that is stuck: that probe fails without an answer.
  await untilAnswered('/livez fails', async () => (await api.probe('/livez', 6000)) === 503)
  await untilAnswered('/readyz succeeds', async () => (await api.probe('/readyz', 6000)) === 200)
  t.strictSame(
    Object.keys(valuesOf(await api.metrics(), 'process_resident_memory_bytes')).length,
    2,
    'of those that answer',
  )
  process.kill(stuck, 'SIGCONT')
  await untilAnswered('/livez succeeds', async () => (await api.probe('/livez')) === 200)
  t.equal(await api.probe('/readyz'), 200)
})

t.test('the program ends with an error when a process cannot start', async (t) => {
  const second = await start(t, { PORT: String(api.port) })
  t.strictSame(await second.exited, [1, null])
  t.match(JSON.stringify(second.logged) + second.errors(), /EADDRINUSE/)
  t.equal((await api.get('/health')).status, 200)
})

t.test('processes end with the one that started them', async () => {
  await eventually('two of them', () => api.pids().length === 2)
  const pids = api.pids()
  api.child.kill('SIGKILL')
  await eventually('both have ended', () => !pids.some(isRunning))
})

t.test(
  'a process that dies is replaced by one that serves once it is ready; until then the other one does',
  async (t) => {
    const api = await start(t)
    const listening = async () => valuesOf(await api.metrics(), 'api_processes_listening')['supervisor']
    await api.isReady()
    const [dead = 0, other = 0] = api.pids()
    // Not of this database: who is asked for it must not serve.
    const ledger = join(api.folder, 'objects/erasures/ledger')
    await mkdir(ledger, { recursive: true })
    const entry = join(ledger, `${'a'.repeat(64)}~object`)
    await writeFile(entry, '')
    process.kill(dead, 'SIGKILL')
    const refused = () => api.logged.some(({ process, msg }) => process === 1 && msg === 'not ready to serve')
    await eventually('the new one is not ready', refused)
    // One connection of each port may have been on its way to the process that died: it gets no answer.
    await untilAnswered('the replica is ready', async () => (await api.probe('/readyz')) === 200)
    await Promise.allSettled([api.get('/health'), api.get('/health')])
    for (let n = 0; n < 6; n++) {
      const { status, headers } = await api.get('/health')
      const line = () => api.logged.find(({ request_id: id }) => id === headers.get('x-request-id'))
      await eventually('the line of the access log', () => line() !== undefined)
      t.strictSame([status, line()?.['process']], [200, 2])
    }
    t.equal(await api.probe('/livez'), 200, 'no reason to end the other one')
    t.equal(await listening(), 1)
    await rm(entry)
    await untilAnswered('both serve', async () => (await listening()) === 2)
    t.ok(isRunning(other))
    t.strictSame([api.pids().length, api.pids().includes(dead)], [2, false])
    t.strictSame(valuesOf(await api.metrics(), 'api_processes_died_total'), { supervisor: 1 })
    // As systemd and Ctrl-C do: each process gets it twice.
    for (const pid of api.pids()) process.kill(pid, 'SIGTERM')
    api.child.kill('SIGTERM')
    t.strictSame(await api.exited, [0, null])
  },
)

t.test('SIGTERM drains all: not ready at once, requests are served, and those that run get their answer', async (t) => {
  const NODE_OPTIONS = `${process.env['NODE_OPTIONS'] ?? ''} --max-old-space-size=512`
  const api = await start(t, { DRAIN_SECONDS: '10', NODE_OPTIONS })
  await api.isReady()
  const pids = api.pids()
  for (const pid of pids) t.notMatch(await readFile(`/proc/${pid}/cmdline`, 'utf8'), '--max-heap-size', 'as it is told')
  // The first reading of the document takes long. Connections are dealt in turn: each process has made it by then.
  for (const _ of pids) t.equal((await api.get('/openapi.json')).status, 200)
  const running = [await slowUpload(world, api.port), await slowUpload(world, api.port)]
  api.child.kill('SIGTERM')
  await untilAnswered('the replica is not ready', async () => (await api.probe('/readyz')) === 503)
  t.equal((await api.get('/openapi.json')).status, 200, 'still served')
  await untilAnswered('new connections are refused', () =>
    api.get('/openapi.json').then(
      () => false,
      () => true,
    ),
  )
  t.ok(pids.every(isRunning), 'both wait for their request')
  for (const upload of running) t.match(await upload.finish(), /^HTTP\/1\.1 415/, 'no picture: an answer of the API')
  t.strictSame(await api.exited, [0, null])
  t.notOk(pids.some(isRunning))
  t.equal(api.errors(), '')
})

t.test('more processes than the settings can be shared by are a mistake', async (t) => {
  const api = await start(t, { API_PROCESSES: '3', DATABASE_CONNECTIONS: '14', MAX_BODIES: '71' })
  t.strictSame(await api.exited, [1, null])
  for (const name of ['DATABASE_CONNECTIONS', 'MAX_BODIES']) t.match(api.errors(), new RegExp(`^ {2}${name}`, 'm'))
})
