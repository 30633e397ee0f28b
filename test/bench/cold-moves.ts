import { createHash, randomBytes } from 'node:crypto'
import { Agent } from 'node:http'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Client } from 'minio'
import { coldKeyOf } from '../../lib/contract/cold-key.ts'
import { moveToCold } from '../../lib/runtime/object-store/move-to-cold.ts'
import { openS3Store } from '../../lib/runtime/object-store/s3.ts'
import { COLD_CLASS, startRadosGateway } from '../support/services/radosgw.ts'

/**
 * What a move to the cold tier costs: copy, proof, deletion of the source, look that nothing is left. In proportion to a
 * bare loop of the same requests to the same Ceph gateway, that checks nothing. `BENCH_ROUNDS` (3) changes how many rounds.
 */
const OBJECTS = 100
const BYTES = 64 * 1024
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3)
const LARGE_MIB = 256
const TARGET = 0.8
const MIB = 1024 ** 2

const gateway = await startRadosGateway({ isTiered: true })
if (!gateway) throw new Error('Ceph is not installed')
const { endpoint, bucket, region, accessKey, secretKey } = gateway.s3
const store = openS3Store({ ...gateway.s3, coldClass: COLD_CLASS, copyPartBytes: 64 * MIB })
const { hostname, port } = new URL(endpoint)
const agent = new Agent({ keepAlive: true, scheduling: 'lifo' })
const address = { endPoint: hostname, port: Number(port), useSSL: false, transportAgent: agent }
const bare = new Client({ ...address, accessKey, secretKey, region, retryOptions: { disableRetry: true } })

const body = randomBytes(BYTES)
const sha256 = createHash('sha256').update(body).digest('hex')

async function ask(method: string, key: string, { query = '', headers = {}, payload = '' }: Partial<Asked> = {}) {
  const request = { method, bucketName: bucket, ...(key && { objectName: key }), query, headers }
  return buffer(await bare.makeRequestAsync(request, payload, [200, 204, 404]))
}
interface Asked {
  query: string
  headers: Record<string, string>
  payload: string
}

/** The requests of a move and of the deletion of its source, in their order. */
async function bareMove(key: string): Promise<void> {
  const to = coldKeyOf(key)
  const prefix = encodeURIComponent(key)
  await ask('HEAD', key)
  await ask('HEAD', to)
  await ask('HEAD', key)
  const headers = { 'x-amz-copy-source': `/${bucket}/${key}`, 'x-amz-storage-class': COLD_CLASS }
  await ask('PUT', to, { headers })
  await ask('HEAD', to)
  await ask('HEAD', key)
  createHash('sha256')
    .update(await ask('GET', to))
    .digest('hex')
  await ask('GET', '', { query: `uploads&prefix=${prefix}` })
  await ask('GET', '', { query: `prefix=${prefix}&versions` })
  const payload = `<Delete><Quiet>true</Quiet><Object><Key>${key}</Key><VersionId>null</VersionId></Object></Delete>`
  const md5 = createHash('md5').update(payload).digest('base64')
  await ask('POST', '', { query: 'delete', headers: { 'content-md5': md5 }, payload })
  await ask('GET', '', { query: `prefix=${prefix}&versions` })
}

async function ourMove(key: string): Promise<void> {
  await moveToCold(store, key, { sha256, size: BYTES })
  await store.deleteForGood(key)
}

const cpu = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

async function run(move: (key: string) => Promise<void>, prefix: string, lanes: number) {
  const keys = Array.from({ length: OBJECTS }, (_, n) => `${prefix}/${n}/original`)
  for (const key of keys) await store.put(key, body, { contentType: 'image/jpeg' })
  const before = { wall: performance.now(), cpu: cpu() }
  const lane = async () => {
    for (let key = keys.pop(); key !== undefined; key = keys.pop()) await move(key)
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  const cost = { wall: (performance.now() - before.wall) / OBJECTS, cpu: (cpu() - before.cpu) / OBJECTS }
  await store.deletePrefix(`${prefix}/`)
  return cost
}

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
const rss = () => {
  collect()
  return process.memoryUsage().rss / MIB
}

const median = (numbers: number[]) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0

try {
  await run(bareMove, 'warm/a', 4)
  await run(ourMove, 'warm/b', 4)
  const start = rss()
  console.log(`${OBJECTS} objects of ${BYTES / 1024} KiB, ms for each\n`)
  console.log(
    '| at a time | round | bare: wall | CPU | moved and proved: wall | CPU | objects per second, against bare |',
  )
  console.log('|---|---|---|---|---|---|---|')
  for (const lanes of [1, 4]) {
    const ratios: number[] = []
    for (let round = 1; round <= ROUNDS; round++) {
      const order = round % 2 ? [bareMove, ourMove] : [ourMove, bareMove]
      const costs = new Map<unknown, Awaited<ReturnType<typeof run>>>()
      for (const move of order) costs.set(move, await run(move, `${lanes}/${round}/${move.name}`, lanes))
      const [a, b] = [costs.get(bareMove), costs.get(ourMove)]
      if (!a || !b) throw new Error('a round lacks a side')
      ratios.push(a.wall / b.wall)
      console.log(
        `| ${[lanes, round, ...[a.wall, a.cpu, b.wall, b.cpu, a.wall / b.wall].map((n) => n.toFixed(2))].join(' | ')} |`,
      )
    }
    const ratio = median(ratios)
    console.log(
      `\n${lanes} at a time: ${ratio.toFixed(2)} of bare (target ${TARGET}): ${ratio >= TARGET ? 'met' : 'MISSED'}\n`,
    )
  }
  console.log(`Memory: ${start.toFixed(0)} MiB before, ${rss().toFixed(0)} MiB after ${4 * ROUNDS * OBJECTS} moves`)

  const large = 'large/1/original'
  const zeros = Buffer.alloc(MIB)
  async function* pieces() {
    for (let n = 0; n < LARGE_MIB; n++) yield zeros
  }
  await store.put(large, Readable.from(pieces()), { contentType: 'video/mp4', size: LARGE_MIB * MIB })
  const idle = rss()
  let peak = idle
  const timer = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss / MIB)
  }, 10)
  const began = performance.now()
  await moveToCold(store, large)
  await store.deleteForGood(large)
  clearInterval(timer)
  const seconds = (performance.now() - began) / 1000
  console.log(
    `One of ${LARGE_MIB} MiB, without a digest, in parts of 64 MiB: ${seconds.toFixed(1)} s, +${(peak - idle).toFixed(0)} MiB`,
  )
} finally {
  agent.destroy()
  await store.close()
  await gateway.stop()
}
