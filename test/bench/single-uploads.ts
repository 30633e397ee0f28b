import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { startRadosGateway } from '../support/services/radosgw.ts'
import { compileProgram } from './compile.ts'
import { inWorld, type World } from './world.ts'

/**
 * How much the API grows while 64 slow clients send it a whole file each, whose length none of them announces, and it
 * sends them on to S3. Memory must not depend on how many there are. The API is compiled, as in the image, and in a
 * process of its own; the client is this process.
 */
const MIB = 1024 * 1024
const AT_ONCE = 64
/** More than one part, and as long as was held in memory before parts went to disk. */
const FILE = 15 * MIB
const PIECE = 64 * 1024
/** At least; each client then sends 500 KiB a second. */
const SECONDS = 30
const ROUNDS = 2
const TARGET = 128

const HEAD = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.mp4"\r\ncontent-type: video/mp4\r\n\r\n'
/** The first box of an MP4 file (ISO 14496-12 §4.3): enough to be taken for one. */
const FTYP = Buffer.from('00000018667479706d703432000000006d70343269736f6d', 'hex')

const gateway = await startRadosGateway()
if (gateway) {
  const compiled = await mkdtemp(join(tmpdir(), 'keepsake-bench-api-'))
  try {
    const { endpoint, region, bucket, accessKey, secretKey } = gateway.s3
    const settings = {
      STORE_KIND: 's3',
      S3_ENDPOINT: endpoint,
      S3_REGION: region,
      S3_BUCKET: bucket,
      S3_ACCESS_KEY: accessKey,
      S3_SECRET_KEY: secretKey,
      SCRATCH_FOLDER: compiled,
    }
    const program = await compileProgram('test/bench/api-child', compiled)
    console.log(await inWorld(measure, { program, settings }))
  } finally {
    await gateway.stop()
    await rm(compiled, { recursive: true, force: true })
  }
} else console.log('Not measured: Ceph is not installed')

async function measure(world: World): Promise<string> {
  // Code is loaded and connections are made before anything is measured.
  await send(world, 0)
  const { rss: atRest } = await world.api.usage()
  const rows: string[] = []
  for (let round = 1; round <= ROUNDS; round++) {
    await world.api.forgetPeak()
    const before = await world.api.usage()
    const started = performance.now()
    const answers = await Promise.all(Array.from({ length: AT_ONCE }, () => send(world, SECONDS)))
    const seconds = (performance.now() - started) / 1000
    const { peak, cpu } = await world.api.usage()
    const made = answers.filter((status) => status === 201).length
    if (made < AT_ONCE) console.log(`answers: ${answers.join(' ')}`)
    const growth = (peak - before.rss) / MIB
    const met = growth <= TARGET && made === AT_ONCE ? 'met' : 'MISSED'
    if (met !== 'met') process.exitCode = 1
    rows.push(
      `| ${round} | ${made} of ${AT_ONCE} | ${seconds.toFixed(0)} | ${(cpu - before.cpu).toFixed(1)} | ${growth.toFixed(1)} | ${((peak - atRest) / MIB).toFixed(1)} | ≤ ${TARGET}: ${met} |`,
    )
  }
  return [
    `${AT_ONCE} single uploads of ${FILE / MIB} MiB at once, S3 (Ceph), growth of the API's resident memory in MiB`,
    `(${(atRest / MIB).toFixed(0)} before)`,
    '',
    '| round | made | seconds | CPU, s | growth | above the state before the first | target |',
    '|---|---|---|---|---|---|---|',
    ...rows,
  ].join('\n')
}

/** Uploads one file, spread over so many seconds; resolves with the status of the answer. */
async function send({ api, org, token }: World, seconds: number): Promise<number> {
  const { statusCode, body } = await request(`${api.url}/v1/api/media/${org}/single`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'multipart/form-data; boundary=b' },
    body: Readable.from(form(seconds), { objectMode: false }),
    headersTimeout: 300_000,
  })
  await body.dump()
  return statusCode
}

async function* form(seconds: number): AsyncGenerator<Buffer> {
  const pause = (seconds * 1000 * PIECE) / FILE
  const piece = randomBytes(PIECE)
  yield Buffer.from(HEAD)
  yield FTYP
  for (let sent = FTYP.length; sent < FILE; sent += PIECE) {
    yield piece.subarray(0, Math.min(PIECE, FILE - sent))
    if (pause > 0) await sleep(pause)
  }
  yield Buffer.from('\r\n--b--\r\n')
}
