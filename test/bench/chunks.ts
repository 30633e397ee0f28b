import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { request } from 'undici'
import { startRadosGateway } from '../support/services/radosgw.ts'
import { compileProgram } from './compile.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * How much the API grows while it takes four chunks of 64 MiB at once: memory must not depend on what is uploaded. The
 * API is compiled, as in the image, and in a process of its own; the client is this process. The first round also loads
 * code and grows the heap to its working size.
 */
const MIB = 1024 * 1024
const CHUNK = 64 * MIB
const AT_ONCE = 4
/** After the first. Ceph keeps in memory what was replaced until its next sweep. */
const ROUNDS = { folder: 5, s3: 2 }
const TARGET = 32

const compiled = await mkdtemp(join(tmpdir(), 'keepsake-bench-api-'))
try {
  const program = await compileProgram('test/bench/api-child', compiled)
  console.log(await inWorld((world) => measure(world, 'folder store', ROUNDS.folder), { program }))
  console.log(`\n${await withGateway(program)}`)
} finally {
  await rm(compiled, { recursive: true, force: true })
}

async function withGateway(program: string): Promise<string> {
  const gateway = await startRadosGateway()
  if (!gateway) return 'S3 was not measured: Ceph is not installed'
  try {
    const { endpoint, region, bucket, accessKey, secretKey } = gateway.s3
    const settings = {
      STORE_KIND: 's3',
      S3_ENDPOINT: endpoint,
      S3_REGION: region,
      S3_BUCKET: bucket,
      S3_ACCESS_KEY: accessKey,
      S3_SECRET_KEY: secretKey,
    }
    return await inWorld((world) => measure(world, 'S3 (Ceph)', ROUNDS.s3), { program, settings })
  } finally {
    await gateway.stop()
  }
}

async function measure(world: World, store: string, laterRounds: number): Promise<string> {
  const put = await openUpload(world)
  const { rss: atRest } = await world.api.usage()
  const rounds: { growth: number; wall: number; peak: number }[] = []
  for (let round = 0; round <= laterRounds; round++) {
    await world.api.forgetPeak()
    const before = await world.api.usage()
    const started = performance.now()
    await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => put(index)))
    const wall = performance.now() - started
    const { peak } = await world.api.usage()
    rounds.push({ growth: (peak - before.rss) / MIB, wall, peak: (peak - atRest) / MIB })
  }
  const [first, ...later] = rounds
  const firstGrowth = first?.growth ?? Number.NaN
  const growths = later.map((r) => r.growth)
  const rate = (AT_ONCE * 64_000) / median(later.map((r) => r.wall))
  const row = (name: string, growth: number) =>
    `| ${name} | ${growth.toFixed(1)} | ≤ ${TARGET}: ${growth <= TARGET ? 'met' : 'MISSED'} |`
  return [
    `${AT_ONCE} chunks of 64 MiB at once, ${store}, ${rate.toFixed(0)} MiB/s, growth of the API's resident memory in MiB`,
    `(${(atRest / MIB).toFixed(0)} before the first chunk)`,
    '',
    '| round | growth | target |',
    '|---|---|---|',
    row('first after the start', firstGrowth),
    row(`${laterRounds} later ones, median`, median(growths)),
    row(`${laterRounds} later ones, highest`, Math.max(...growths)),
    row('all of them together', Math.max(...rounds.map((r) => r.peak))),
  ].join('\n')
}

/** Begins an upload of so many chunks; what comes back sends one of them. */
async function openUpload({ api, org, token }: World): Promise<(index: number) => Promise<void>> {
  const base = `${api.url}/v1/api/media/${org}/upload`
  const headers = { authorization: `Bearer ${token}` }
  const plan = {
    filename: 'IMG_0001.MOV',
    mime_type: 'video/quicktime',
    file_size_bytes: AT_ONCE * CHUNK,
    chunk_size_bytes: CHUNK,
  }
  const started = await request(base, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(plan),
  })
  const { data } = (await started.body.json()) as { data: { upload_id: string } }
  return async (index) => {
    const { statusCode, body } = await request(`${base}/${data.upload_id}/${index}`, {
      method: 'PUT',
      headers: { ...headers, 'content-type': 'application/octet-stream', 'content-length': String(CHUNK) },
      body: Readable.from(bytes(), { objectMode: false, highWaterMark: MIB }),
    })
    const answer = await body.text()
    if (statusCode !== 200) throw new Error(`chunk ${index} was answered ${statusCode}: ${answer}`)
  }
}

function* bytes(): Generator<Buffer> {
  const piece = Buffer.alloc(MIB, 'keepsake')
  for (let sent = 0; sent < CHUNK; sent += MIB) yield piece
}
