import t, { type Test } from 'tap'
import { succeededOf } from '../../../crds/run.ts'
import { EXIT } from '../../../lib/contract/job-result.ts'
import { manifestKey, masterKey } from '../../../lib/contract/object-keys.ts'
import { openS3Store } from '../../../lib/runtime/object-store/s3.ts'
import { privateCa } from '../../support/private-ca.ts'
import { openGround } from '../node-support/ground.ts'
import { STORE_SECRET, storeEnvironment } from '../node-support/operator.ts'
import { startPrivateS3 } from '../node-support/services.ts'
import { verdict } from '../node-support/verdict.ts'
import { openWorld, type World } from '../node-support/world.ts'

/** Pods whose object store is only reached by TLS, with a certificate that no public authority has signed. */
t.jobs = 3
t.setTimeout(1_800_000)
const ground = await openGround(t, startPrivateS3)
const store = openS3Store(ground.s3)
t.teardown(() => store.close())

const NOT_ACCEPTED =
  /The object store's certificate is not accepted: [^;]+\. S3_CA must hold the certificate of the authority that signed it$/

async function isPlayable(t: Test, w: World, name: string): Promise<void> {
  const prefix = `out/${w.name}/${name}/`
  t.ok(await store.head(manifestKey(prefix)), 'the manifest is in the store')
  const playlist = await store.get(masterKey(prefix))
  t.match(Buffer.concat(await playlist.body.toArray()).toString(), /^#EXTM3U\n/)
}

/** Of the pods that have ended. */
async function exitsOf(w: World, name: string): Promise<number[]> {
  const states = (await w.podsOf(name)).map((p) => p.status?.containerStatuses?.[0]?.state)
  return states.flatMap((state) => state?.terminated?.exitCode ?? [])
}

t.test('with the certificate of the authority in the Secret, pods use the store', { buffered: true }, async (t) => {
  const w = await openWorld(t, ground, 'ca-told')
  // As docs/installing.md says it, instead of what openWorld has made.
  const { S3_CA = '', ...others } = storeEnvironment(ground.s3)
  const folder = t.testdir({ 'ca.pem': S3_CA })
  const literals = Object.entries(others).map(([key, value]) => `--from-literal=${key}=${value}`)
  await w.kubectl('delete', 'secret', STORE_SECRET)
  await w.kubectl('create', 'secret', 'generic', STORE_SECRET, ...literals, `--from-file=S3_CA=${folder}/ca.pem`)
  await w.submit('told', 'short', { maxAttempts: 1 })
  t.match(verdict(t, await w.untilFinished('told')), { is: 'True', reason: 'Succeeded', attempts: 1 })
  await isPlayable(t, w, 'told')
})

t.test(
  'without it status says what is missing, and the next attempt uses what was added',
  { buffered: true },
  async (t) => {
    const w = await openWorld(t, { ...ground, s3: { ...ground.s3, ca: undefined } }, 'ca-untold')
    await w.submit('untold', 'short', { maxAttempts: 3 })
    const retrying = await w.until('untold', 'a retry', (r) => succeededOf(r.status)?.reason === 'Retrying')
    t.match(verdict(t, retrying), { is: 'Unknown', message: NOT_ACCEPTED })
    t.equal((await exitsOf(w, 'untold'))[0], EXIT.transient)
    await w.secret(STORE_SECRET, storeEnvironment(ground.s3))
    const done = verdict(t, await w.untilFinished('untold'))
    t.match(done, { is: 'True', reason: 'Succeeded' })
    t.ok((done.attempts ?? 0) >= 2, `attempt ${done.attempts} had it`)
    await w.told('untold', 'Retrying', (e) => e.reason === 'Retrying' && NOT_ACCEPTED.test(e.note))
    await isPlayable(t, w, 'untold')
  },
)

t.test(
  'with another authority it is tried as often as it may be, and fails with the same words',
  { buffered: true },
  async (t) => {
    const { ca } = privateCa(t.testdir())
    const w = await openWorld(t, { ...ground, s3: { ...ground.s3, ca } }, 'ca-other')
    await w.submit('stranger', 'short', { maxAttempts: 2 })
    const done = await w.untilFinished('stranger')
    t.match(verdict(t, done), { is: 'False', reason: 'StoreUnavailable', message: NOT_ACCEPTED, attempts: 2 })
    t.same(await exitsOf(w, 'stranger'), [EXIT.transient, EXIT.transient])
    t.equal(await store.head(manifestKey(`out/${w.name}/stranger/`)), undefined)
  },
)
