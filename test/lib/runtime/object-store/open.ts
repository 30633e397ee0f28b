import t from 'tap'
import * as z from 'zod'
import { loadConfig } from '../../../../lib/runtime/config.ts'
import { BusConfig, openEventBus } from '../../../../lib/runtime/event-bus/open.ts'
import { openObjectStore, StoreConfig } from '../../../../lib/runtime/object-store/open.ts'
import { tellOfColdTier } from '../../../../lib/runtime/object-store/tell-of-cold-tier.ts'
import { privateCa } from '../../../support/private-ca.ts'
import { quietLog } from '../../../support/quiet-log.ts'

const s3 = {
  STORE_KIND: 's3',
  S3_ENDPOINT: 'https://s3.example.com',
  S3_BUCKET: 'keepsake',
  S3_ACCESS_KEY: 'access',
  S3_SECRET_KEY: 'secretsecret',
}
const without = (env: Record<string, string>, key: string) =>
  Object.fromEntries(Object.entries(env).filter(([k]) => k !== key))

t.test('a folder store opens, and keeps what it is given', async (t) => {
  const store = await openObjectStore(loadConfig(StoreConfig, { STORE_KIND: 'folder', STORE_FOLDER: t.testdir() }))
  await store.put('a', 'x', { contentType: 'text/plain' })
  t.equal((await store.head('a'))?.size, 1)
  t.equal(await store.presignGet('a', 60, 'video/mp2t'), undefined)
})

t.test('an S3 store opens without speaking to anybody, and signs for its endpoint and region', async (t) => {
  const config = loadConfig(StoreConfig, { ...s3, S3_REGION: 'eu-central-1' })
  const url = new URL((await (await openObjectStore(config)).presignGet('org/a', 60, 'video/mp2t')) ?? '')
  t.equal(url.origin, 'https://s3.example.com')
  t.equal(url.pathname, '/keepsake/org/a')
  t.match(url.searchParams.get('X-Amz-Credential'), /eu-central-1/)
})

t.test('a program says in its log that its cold tier cannot be used, and runs on', async (t) => {
  const log = quietLog()
  const said: unknown[] = []
  t.intercept(log, 'error', { value: (fields: object, text: string) => said.push({ ...fields, text }) })
  const dead = { ...s3, S3_ENDPOINT: 'http://127.0.0.1:9', S3_COLD_CLASS: 'GLACIER_IR' }
  const store = await openObjectStore(loadConfig(StoreConfig, dead))
  t.teardown(() => store.close())
  await tellOfColdTier(store, log)
  t.match(said, [{ err: { code: 'Unavailable' }, text: 'the cold tier of the object store cannot be used' }])
  const whole = await openObjectStore(loadConfig(StoreConfig, { STORE_KIND: 'folder', STORE_FOLDER: t.testdir() }))
  await tellOfColdTier(whole, log)
  t.equal(said.length, 1)
})

t.test('the cold tier must be readable at once, and its settings be such', (t) => {
  for (const S3_COLD_CLASS of ['GLACIER', 'DEEP_ARCHIVE', 'glacier ir', ''.padEnd(65, 'A')])
    t.throws(() => loadConfig(StoreConfig, { ...s3, S3_COLD_CLASS }), { message: /S3_COLD_CLASS/ }, S3_COLD_CLASS)
  t.throws(() => loadConfig(StoreConfig, { ...s3, S3_COLD_BUCKET: 'x' }), { message: /S3_COLD_BUCKET/ })
  t.throws(() => loadConfig(StoreConfig, { ...s3, S3_COLD_BUCKET: s3.S3_BUCKET }), { message: /S3_COLD_BUCKET/ })
  t.end()
})

t.test('what one kind needs is demanded together, and no value is shown', async (t) => {
  t.throws(() => loadConfig(StoreConfig, { STORE_KIND: 'folder' }), { message: /STORE_FOLDER: is needed/ })
  const named = ['S3_ENDPOINT', 'S3_BUCKET', 'S3_ACCESS_KEY', 'S3_SECRET_KEY']
  for (const key of named) t.throws(() => loadConfig(StoreConfig, without(s3, key)), { message: new RegExp(key) })
  t.throws(() => loadConfig(StoreConfig, { STORE_KIND: 's3' }), { message: new RegExp(named.join('[\\s\\S]*')) })
  t.throws(() => loadConfig(StoreConfig, { ...s3, S3_ENDPOINT: 'ftp://hidden.example.com' }), {
    message: /^(?![\s\S]*hidden)[\s\S]*S3_ENDPOINT/,
  })
  t.throws(() => loadConfig(StoreConfig, {}), { message: /STORE_KIND/ })
})

t.test('certificates of an own authority must be such', async (t) => {
  const { ca, cert } = privateCa(t.testdir())
  t.doesNotThrow(() => loadConfig(StoreConfig, { ...s3, S3_CA: `# ours\n${ca}\n${cert}` }), 'as many as there are')
  for (const bad of ['/etc/ssl/ca.pem', ca.slice(0, 100), `${ca}${cert.replace(/[A-Za-z]{20}/, '!')}`]) {
    t.throws(() => loadConfig(StoreConfig, { ...s3, S3_CA: bad }), { message: /S3_CA: is not a certificate in PEM/ })
  }
})

t.test('a program can add fields of its own, and keeps the checks', async (t) => {
  const Mine = StoreConfig.extend({ MINE: z.string() })
  t.throws(() => loadConfig(Mine, { STORE_KIND: 'folder', MINE: 'x' }), { message: /STORE_FOLDER/ })
  t.equal(loadConfig(Mine, { STORE_KIND: 'folder', STORE_FOLDER: '/x', MINE: 'x' }).MINE, 'x')
  const Copied = z.object({ ...StoreConfig.shape, ...BusConfig.shape })
  const config = loadConfig(Copied, { STORE_KIND: 'folder', BUS_KIND: 'nats' })
  await t.rejects(openObjectStore(config), { message: /STORE_FOLDER/ }, 'a copied shape is checked on opening')
  await t.rejects(openEventBus(config, quietLog()), { message: /NATS_URL/ })
})

t.test('the bus in this process needs nothing', async (t) => {
  const bus = await openEventBus(loadConfig(BusConfig, { BUS_KIND: 'memory' }), quietLog())
  await t.resolves(bus.check())
  await bus.close()
})

t.test('a NATS bus needs an address, and opens while the server is away', async (t) => {
  t.throws(() => loadConfig(BusConfig, { BUS_KIND: 'nats' }), { message: /NATS_URL: is needed/ })
  for (const NATS_URL of ['localhost:4222', 'http://x:1', 'nats://a,b'])
    t.throws(() => loadConfig(BusConfig, { BUS_KIND: 'nats', NATS_URL }), { message: /NATS_URL/ }, NATS_URL)
  const bus = await openEventBus(
    loadConfig(BusConfig, { BUS_KIND: 'nats', NATS_URL: 'nats://u:p@127.0.0.1:9' }),
    quietLog(),
  )
  await bus.close()
})
