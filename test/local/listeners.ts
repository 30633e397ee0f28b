import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import type { Ports } from '../../local/ports.ts'
import { emptyDatabase } from '../support/database.ts'
import { generatedBytes, knownNasty } from '../support/nasty-requests.ts'
import { startProcess } from '../support/platform-process.ts'
import { sendRaw } from '../support/raw-http.ts'
import { withSampleMusic } from '../support/samples.ts'

/** Every listener of every program in one process, as `npm start` has them: an uncaught exception would end it. */
const folder = await mkdtemp(join(tmpdir(), 'keepsake-listeners-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
await withSampleMusic(folder)
const platform = startProcess(t, folder, {
  KEEPSAKE_DATABASE_URL: await emptyDatabase(t),
  RATE_LIMIT_FACTOR: '0',
})
await platform.ready()
const ports = JSON.parse(await readFile(join(folder, 'ports.json'), 'utf8')) as Ports

/** A request to each that costs it little: metrics are computed anew for each that reads them. */
const LISTENERS: Record<keyof Ports, { path: string; status: number }> = {
  public: { path: '/health', status: 200 },
  internal: { path: '/livez', status: 200 },
  metrics: { path: '/', status: 404 },
  worker: { path: '/livez', status: 200 },
  workerMetrics: { path: '/', status: 404 },
  operator: { path: '/livez', status: 200 },
  operatorMetrics: { path: '/', status: 404 },
  progress: { path: '/progress', status: 401 },
  page: { path: '/', status: 200 },
  identity: { path: '/jwks', status: 200 },
}

const answers = async (name: keyof Ports) => {
  const { path, status } = LISTENERS[name]
  const method = name === 'progress' ? 'POST' : 'GET'
  const host = `127.0.0.1:${ports[name]}`
  const answer = await sendRaw(
    ports[name],
    `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
    'wait',
  )
  return answer.startsWith(`HTTP/1.1 ${status} `)
}
async function sendBoth(port: number, bytes: string): Promise<void> {
  for (const leaving of ['end', 'destroy'] as const) await sendRaw(port, Buffer.from(bytes, 'latin1'), leaving)
}
const shown = (bytes: string) => JSON.stringify(bytes.length > 300 ? `${bytes.slice(0, 300)}…` : bytes)

t.test('every listener outlives every request', async (t: Test) => {
  // They wait for the network most of the time.
  t.jobs = 10
  for (const name of Object.keys(LISTENERS) as (keyof Ports)[]) {
    t.test(`the listener "${name}" outlives requests that are known to be nasty`, { buffered: true }, async (t) => {
      const port = ports[name]
      t.ok(await answers(name), 'it answers before')
      const all = knownNasty(port)
      // A listener that has ended refuses the next of them; one that hangs is found by the last of each ten.
      for (let from = 0; from < all.length; from += 10) {
        const some = all.slice(from, from + 10)
        for (const bytes of some) await sendBoth(port, bytes)
        if (!(await answers(name)))
          throw new Error(`it does not answer after one of ${some.map(shown).join('\n')}\n${platform.output()}`)
      }
      t.pass()
    })

    t.test(`the listener "${name}" outlives generated requests`, { buffered: true }, async () => {
      const port = ports[name]
      const property = fc.asyncProperty(
        generatedBytes(port),
        fc.constantFrom('end', 'destroy'),
        async (bytes, leaving) => {
          await sendRaw(port, Buffer.from(bytes, 'latin1'), leaving)
          return answers(name)
        },
      )
      await fc.assert(property, { seed: 9, numRuns: 40 })
    })
  }
})

t.test('no exception went uncaught, and all of it still stops in order', async (t) => {
  platform.child.kill('SIGTERM')
  t.equal(await platform.ended, 0, platform.output())
  t.notMatch(platform.output(), /uncaught|unhandled/i)
  t.notMatch(await readFile(join(folder, 'keepsake.log'), 'utf8'), /uncaught|unhandled/i)
})
