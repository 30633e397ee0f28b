import { request } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream'
import t from 'tap'
import { openS3Store } from '../../../lib/runtime/object-store-s3.ts'
import { clip } from '../../support/clips.ts'
import { privateCa } from '../../support/private-ca.ts'
import { startRadosGateway } from '../../support/services/radosgw.ts'
import { transcodeBench } from '../../support/transcode-run.ts'

const gateway = await startRadosGateway()
if (!gateway) {
  t.plan(0, 'Ceph is not installed')
  process.exit()
}
t.teardown(() => gateway.stop())
const { ca, key, cert } = privateCa(t.testdir())
const { s3 } = gateway

/** The same S3 server by TLS, as a company's load balancer offers it. */
const balancer = createServer({ key, cert }, (req, res) => {
  const { method, url, headers } = req
  const onward = request(new URL(url ?? '/', s3.endpoint), { method, headers }, (answer) => {
    res.writeHead(answer.statusCode ?? 502, answer.headers)
    pipeline(answer, res, () => {})
  })
  onward.on('error', () => res.destroy())
  pipeline(req, onward, () => {})
})
await new Promise<void>((resolve) => balancer.listen(0, '127.0.0.1', resolve))
t.teardown(() => {
  balancer.closeAllConnections()
  balancer.close()
})
const endpoint = `https://127.0.0.1:${(balancer.address() as AddressInfo).port}`
const store = openS3Store({ ...s3, endpoint, ca })
t.teardown(() => store.close())

t.test('the program converts from and to a store whose certificate a private authority signed', async (t) => {
  const bench = await transcodeBench(t)
  await store.upload(await clip('tiny'), 'org/o/media/m/original', { contentType: 'video/mp4' })
  const input = { id: 'm', type: 'video' as const, sourceKey: 'org/o/media/m/original', outputPrefix: bench.prefix }
  const env = {
    STORE_KIND: 's3',
    S3_ENDPOINT: endpoint,
    S3_BUCKET: s3.bucket,
    S3_ACCESS_KEY: s3.accessKey,
    S3_SECRET_KEY: s3.secretKey,
  }
  const stranger = await bench.run([input], {}, env)
  t.match(stranger, { exit: 20, result: { ok: false, reason: 'StoreUnavailable' } }, 'unknown to everybody else')
  const told = await bench.run([input], {}, { ...env, S3_CA: ca })
  t.match(told, { exit: 0, result: { ok: true } })
  t.ok(await store.head(`${bench.prefix}manifest.json`))
})
