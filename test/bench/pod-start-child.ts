import { setTimeout as sleep } from 'node:timers/promises'
import { KINDS } from '../../crds/kinds.ts'
import { describedCluster } from '../cluster/driver/description.ts'
import type { PodSeen } from '../cluster/node-support/namespace.ts'
import { startS3 } from '../cluster/node-support/services.ts'
import { nodeName, openWorld, prepareSources, type World } from '../cluster/node-support/world.ts'
import { median } from './world.ts'

/** Started by pod-start.ts, in the network of its node. `BENCH_ROUNDS` (7) says how many pods are started, one after another. */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 7)
const TARGET_MS = 1500
const LOOK_MS = 10

const STEPS = [
  'the Job exists',
  'its pod exists',
  'the pod has a node',
  'the store proxy is ready',
  'the program has started',
  'its modules are loaded, the download begins',
  'the source is probed',
  'encoding begins',
  'first frames',
] as const
type Step = (typeof STEPS)[number]
/** Milliseconds since the request that created the resource was sent. */
type Times = Record<Step, number>

const cluster = describedCluster()
if (!cluster?.nodeAddress) throw new Error('This is started by `npm run bench -- pod-start`')
const closers: (() => Promise<void>)[] = []
const owner = { teardown: (close: () => Promise<void>) => void closers.unshift(close) }
try {
  for (const { plural } of KINDS) {
    await cluster.kubectl('apply', '--server-side', '--force-conflicts', '-f', `crds/${plural}.yaml`)
  }
  const s3 = await startS3(owner, cluster.nodeAddress)
  await prepareSources(s3)
  const ground = { cluster, address: cluster.nodeAddress, node: await nodeName(cluster), s3 }
  const world = await openWorld(owner, ground, 'start', { operator: { JOB_CPU: '1', LOG_LEVEL: 'debug' } })
  // The first pod reads the image's files from the disk.
  await timesOf(world, 'warm-up')
  const rounds: Times[] = []
  for (let n = 0; n < ROUNDS; n++) rounds.push(await timesOf(world, `round-${n}`))
  console.log(table(rounds))
} finally {
  for (const close of closers) await close().catch(console.error)
}
process.exit()

async function timesOf(world: World, name: string): Promise<Times> {
  const sent = Date.now()
  const since = () => Date.now() - sent
  await world.submit(name, 'short', { maxAttempts: 1 })
  const job = await firstOf(() => world.jobsOf(name), since)
  const pod = await firstOf(() => world.podsOf(name), since)
  const hasNode = (pod: PodSeen) => (pod.spec as { nodeName?: string }).nodeName !== undefined
  const assigned = await firstOf(async () => (await world.podsOf(name)).filter(hasNode), since)
  await world.untilFinished(name)
  const podName = (await world.podsOf(name))[0]?.metadata.name ?? ''
  const lines = await linesOf(world, podName, 'media')
  const proxy = await linesOf(world, podName, 'store-proxy')
  const at = (found: Line | undefined) => (found ? Date.parse(found.time) - sent : Number.NaN)
  const stage = (msg: string, of: string) => lines.find((line) => line.msg === msg && line.stage === of)
  const first = stage('stage', 'Downloading')
  await world.kubectl('delete', 'tj', name)
  return {
    'the Job exists': job,
    'its pod exists': pod,
    'the pod has a node': assigned,
    'the store proxy is ready': at(proxy.find(({ msg }) => msg === 'ready')),
    'the program has started': at(first) - (first?.msSinceStart ?? Number.NaN),
    'its modules are loaded, the download begins': at(first),
    'the source is probed': at(stage('stage', 'Probing')),
    'encoding begins': at(stage('stage', 'Encoding')),
    'first frames': at(stage('first frames', 'Encoding')),
  }
}

interface Line {
  time: string
  msg: string
  stage?: string
  msSinceStart?: number
}

async function linesOf(world: World, pod: string, container: string): Promise<Line[]> {
  const text = await world.kubectl('logs', pod, '-c', container)
  return text.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Line] : []))
}

async function firstOf(look: () => Promise<readonly unknown[]>, since: () => number): Promise<number> {
  while ((await look()).length === 0) await sleep(LOOK_MS)
  return since()
}

function table(rounds: readonly Times[]): string {
  let before = 0
  const lines = STEPS.map((step) => {
    const at = median(rounds.map((times) => times[step]))
    const line = `| ${step} | ${at.toFixed(0)} | ${(at - before).toFixed(0)} |`
    before = at
    return line
  })
  const verdict = before <= TARGET_MS ? 'met' : 'MISSED'
  return [
    `From the creation of a TranscodeJob, medians of ${rounds.length} pods; first frames within ${TARGET_MS} ms: ${verdict}`,
    '',
    '| until | ms | after the line above |',
    '|---|---|---|',
    ...lines,
  ].join('\n')
}
