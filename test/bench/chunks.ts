import { Readable } from 'node:stream'
import { request } from 'undici'
import { inWorld, median, type World } from './world.ts'

/**
 * How much the API grows while it takes four chunks of 64 MiB at once, with the folder store: memory must not depend on
 * what is uploaded. The first round also loads code and grows the heap to its working size.
 */
const MIB = 1024 * 1024
const CHUNK = 64 * MIB
const AT_ONCE = 4
const ROUNDS = 5
const TARGET = 32

console.log(await inWorld(measure))

async function measure(world: World): Promise<string> {
  const put = await openUpload(world)
  const rounds: { growth: number; wall: number }[] = []
  for (let round = 0; round <= ROUNDS; round++) {
    await world.api.forgetPeak()
    const before = await world.api.usage()
    const started = performance.now()
    await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => put(index)))
    const wall = performance.now() - started
    const after = await world.api.usage()
    rounds.push({ growth: (after.peak - before.rss) / MIB, wall })
  }
  const [first, ...later] = rounds
  const firstGrowth = first?.growth ?? Number.NaN
  const growths = later.map((r) => r.growth)
  const rate = (AT_ONCE * 64_000) / median(later.map((r) => r.wall))
  const verdict = (growth: number) => `≤ ${TARGET}: ${growth <= TARGET ? 'met' : 'MISSED'}`
  const highest = Math.max(...growths)
  return [
    `${AT_ONCE} chunks of 64 MiB at once, folder store, ${rate.toFixed(0)} MiB/s, growth of the API's resident memory in MiB`,
    '',
    '| round | growth | target |',
    '|---|---|---|',
    `| first after the start | ${firstGrowth.toFixed(1)} | ${verdict(firstGrowth)} |`,
    `| ${ROUNDS} later ones, median | ${median(growths).toFixed(1)} | ${verdict(median(growths))} |`,
    `| ${ROUNDS} later ones, highest | ${highest.toFixed(1)} | ${verdict(highest)} |`,
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
