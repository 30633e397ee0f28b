import { text } from 'node:stream/consumers'
import t from 'tap'
import { HighlightManifest } from '../../../lib/contract/highlight-manifest.ts'
import { openS3Store } from '../../../lib/runtime/object-store/s3.ts'
import { clip } from '../../support/clips.ts'
import { highlightBench } from '../../support/highlight-run.ts'
import { privateCa } from '../../support/private-ca.ts'
import { startRadosGateway } from '../../support/services/radosgw.ts'
import { transcodeBench } from '../../support/transcode-run.ts'

/** The job programs on S3 over TLS. Takes over 20 s: it starts a Ceph cluster, converts a video and renders two highlights. */

const { ca, files } = privateCa(t.testdir())
const gateway = await startRadosGateway({ host: '127.0.0.1', tls: files })
if (!gateway) {
  t.plan(0, 'Ceph is not installed')
  process.exit()
}
t.teardown(() => gateway.stop())
const { s3 } = gateway
const store = openS3Store({ ...s3, ca })
t.teardown(() => store.close())

const INPUT = { id: 'm', type: 'video' as const, sourceKey: 'org/o/media/m/original' }
await store.upload(await clip('tiny'), INPUT.sourceKey, { contentType: 'video/mp4' })
const env = {
  STORE_KIND: 's3',
  S3_ENDPOINT: s3.endpoint,
  S3_BUCKET: s3.bucket,
  S3_ACCESS_KEY: s3.accessKey,
  S3_SECRET_KEY: s3.secretKey,
}

t.test('the program converts from and to a store whose certificate a private authority signed', async (t) => {
  const bench = await transcodeBench(t)
  const input = { ...INPUT, outputPrefix: bench.prefix }
  const stranger = await bench.run([input], {}, env)
  t.match(
    stranger,
    { exit: 20, result: { ok: false, reason: 'StoreUnavailable', message: /S3_CA/ } },
    'unknown to everybody else',
  )
  const told = await bench.run([input], {}, { ...env, S3_CA: ca })
  t.match(told, { exit: 0, result: { ok: true } })
  t.ok(await store.head(`${bench.prefix}manifest.json`))
})

t.test('an upload that is gone is told from a bucket that is not there, or not ours', async (t) => {
  const bench = await transcodeBench(t)
  const input = { ...INPUT, outputPrefix: `${bench.prefix}again/` }
  const run = (change: object, sourceKey = INPUT.sourceKey) =>
    bench.run([{ ...input, sourceKey }], {}, { ...env, S3_CA: ca, ...change })
  const gone = { exit: 11, result: { outputs: [{ reason: 'InputMissing' }] } }
  t.match(await run({}, 'org/o/nothing'), gone)
  const unavailable = (message: RegExp) => ({ exit: 20, result: { ok: false, reason: 'StoreUnavailable', message } })
  t.match(await run({ S3_BUCKET: 'no-such-bucket' }), unavailable(/no bucket no-such-bucket/))
  t.match(await run({ S3_SECRET_KEY: 'another' }), unavailable(/SignatureDoesNotMatch|403|Forbidden/))
})

t.test('a highlight is rendered from and to S3, and the next one uses its pieces again', async (t) => {
  const bench = await highlightBench(t)
  const { id, sourceKey } = INPUT
  const item = { id, type: 'video' as const, sourceKey, cachePrefix: `org/o/media/${id}/pieces/`, seconds: 1 }
  const manifestOf = async (outputPrefix: string) => {
    const { exit, output } = await bench.run([item], { outputPrefix }, { ...env, S3_CA: ca })
    t.equal(exit, 0, 'exits with 0', { output })
    const { body } = await store.get(`${outputPrefix}manifest.json`)
    return HighlightManifest.parse(JSON.parse(await text(body)))
  }
  t.equal((await manifestOf('org/o/highlights/1/v1/')).encode.reused, 0)
  const again = await manifestOf('org/o/highlights/2/v1/')
  t.equal(again.encode.reused, 1)
  for (const { playlist } of again.hls.renditions) t.ok(await store.head(`org/o/highlights/2/v1/${playlist}`))
})
