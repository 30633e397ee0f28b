import { createHash, randomBytes } from 'node:crypto'
import { request } from 'undici'
import { newUuid } from '../../lib/contract/ids.ts'
import { type Cost, costsOf, type Side } from './rounds.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * Work that the API does once, beside requests that make it do it anew: the picture of a QR code, and the digest of a
 * file that was merged without a checksum. Rounds alternate; medians of `BENCH_ROUNDS` (9) are compared, CPU of the API.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 9)
const REQUESTS = 20
const FILE = Number(process.env['BENCH_MIB'] ?? 32) * 1024 * 1024
/** A repeat with a checksum, beside one without. */
const TARGET = 1.5
/** The same picture again, beside a new one: drawing is most of it. */
const TARGET_PICTURE = 0.6

console.log(await inWorld(measure))

async function measure(world: World): Promise<string> {
  const lines = [...(await pictures(world)), ...(await merges(world))]
  return [
    `Medians of ${ROUNDS} alternating rounds of ${REQUESTS} requests, milliseconds of CPU per request; a file of ${FILE / 1024 ** 2} MiB`,
    '',
    '| request | CPU, ms | beside | CPU, ms | ratio |',
    '|---|---|---|---|---|',
    ...lines,
  ].join('\n')
}

async function pictures(world: World): Promise<string[]> {
  const event = await post(world, `/v1/api/orgs/${world.org}/events`, {
    title: 'Reunion',
    start_at: new Date().toJSON(),
  })
  await post(world, `/v1/api/orgs/${world.org}/events/${event['event_id']}/activate`)
  const path = `/v1/api/orgs/${world.org}/events/${event['event_id']}/invitations`
  const drawn: string[] = []
  for (let n = 0; n <= (ROUNDS + 1) * REQUESTS; n++) {
    const made = await post(world, path, { email: `${newUuid()}@example.org` })
    drawn.push(new URL(made['qr_png_url'] ?? '').pathname)
  }
  const same = drawn.pop() ?? ''
  const side = (next: () => string): Side => ({ child: world.api, next: () => ({ method: 'GET', path: next() }) })
  const [anew = [], again = []] = await costsOf(
    [side(() => drawn.pop() ?? ''), side(() => same)],
    { name: 'pictures', connections: 1, requests: REQUESTS },
    ROUNDS,
  )
  return [row('the same QR code again', cpuOf(again), 'a QR code for the first time', cpuOf(anew), TARGET_PICTURE)]
}

async function merges(world: World): Promise<string[]> {
  const bytes = Buffer.concat([
    Buffer.from('00000018667479706d703432000000006d70343269736f6d', 'hex'),
    randomBytes(FILE - 24),
  ])
  const checksum_sha256 = createHash('sha256').update(bytes).digest('hex')
  const firsts: number[] = []
  let upload_id = ''
  for (let n = 0; n < 3; n++) {
    upload_id = await merged(world, bytes)
    const before = await world.api.usage()
    await post(world, `/v1/api/media/${world.org}/merge`, { upload_id, checksum_sha256 })
    firsts.push(((await world.api.usage()).cpu - before.cpu) * 1000)
  }
  const side = (more: object): Side => ({
    child: world.api,
    next: () => ({
      ...{ method: 'POST', path: `/v1/api/media/${world.org}/merge`, headers: headersOf(world) },
      body: JSON.stringify({ upload_id, ...more }),
    }),
  })
  const [bare = [], checked = []] = await costsOf(
    [side({}), side({ checksum_sha256 })],
    { name: 'merges', connections: 1, requests: REQUESTS },
    ROUNDS,
  )
  return [
    row('a repeated merge with a checksum', cpuOf(checked), 'one without', cpuOf(bare), TARGET),
    row('the same', cpuOf(checked), 'the first that has one, which reads the file', median(firsts), 0.2),
  ]
}

/** The id of an upload that was merged without a checksum. */
async function merged(world: World, bytes: Buffer): Promise<string> {
  const path = `/v1/api/media/${world.org}`
  const sizes = { file_size_bytes: bytes.length, chunk_size_bytes: bytes.length }
  const { upload_id = '' } = await post(world, `${path}/upload`, {
    filename: 'a.mp4',
    mime_type: 'video/mp4',
    ...sizes,
  })
  const { statusCode, body } = await request(`${world.api.url}${path}/upload/${upload_id}/0`, {
    method: 'PUT',
    headers: { ...headersOf(world), 'content-type': 'application/octet-stream' },
    body: bytes,
  })
  if (statusCode >= 300) throw new Error(await body.text())
  await body.dump()
  await post(world, `${path}/merge`, { upload_id })
  return upload_id
}

function headersOf({ token }: World): Record<string, string> {
  return { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
}

async function post(world: World, path: string, json: object = {}): Promise<Record<string, string>> {
  const options = { method: 'POST', headers: headersOf(world), body: JSON.stringify(json) } as const
  const { statusCode, body } = await request(`${world.api.url}${path}`, options)
  const text = await body.text()
  if (statusCode >= 300) throw new Error(`${path}: ${text}`)
  return JSON.parse(text).data
}

function cpuOf(costs: readonly Cost[]): number {
  return median(costs.map(({ cpu }) => cpu))
}

function row(name: string, cpu: number, beside: string, other: number, target: number): string {
  const ratio = cpu / other
  if (ratio > target) process.exitCode = 1
  const verdict = `${ratio.toFixed(2)}, ≤ ${target}: ${ratio <= target ? 'met' : 'MISSED'}`
  return `| ${name} | ${cpu.toFixed(2)} | ${beside} | ${other.toFixed(2)} | ${verdict} |`
}
