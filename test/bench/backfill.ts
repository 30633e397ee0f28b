import { setTimeout as sleep } from 'node:timers/promises'
import { FEATURE_WORKERS, FullWorkerConfig } from '../../api/features.ts'
import { startWorker } from '../../api/worker/worker.ts'
import { TRANSCODE_JOBS, type TranscodeJob } from '../../crds/transcode-job.ts'
import { newUuid, parseId, type Uuid } from '../../lib/contract/ids.ts'
import { manifestKey } from '../../lib/contract/object-keys.ts'
import { systemClock } from '../../lib/runtime/clock.ts'
import { loadConfig } from '../../lib/runtime/config.ts'
import { openMemoryBus } from '../../lib/runtime/event-bus/memory.ts'
import {
  anImageManifest,
  type ConversionWorld,
  conversionWorld,
  NAMESPACE,
  succeeded,
  testCluster,
  testStore,
} from '../support/conversion-world.ts'
import { testDatabase } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { AUDIT_KEYS } from '../support/personal-data.ts'
import { quietLog } from '../support/quiet-log.ts'
import { median } from './world.ts'

/**
 * A phone's first backup through the worker, with Postgres and a cluster in memory, where each TranscodeJob ends as soon
 * as it is seen: how many there are, and how long others wait meanwhile for a photo. `BENCH_PHOTOS` changes the number.
 */
const PHOTOS = Number(process.env['BENCH_PHOTOS'] ?? 5000)
/** Uploads that a phone has under way at a time. */
const AT_ONCE = 4
const FEWER = 10
const SLOWER = 3
const IDLE_PROBES = 15

type Found = TranscodeJob & { metadata: { name: string } }

const endings: (() => Promise<void>)[] = []
const t = { teardown: (done: () => Promise<void>) => void endings.unshift(done) }
try {
  console.log(await measure())
} finally {
  for (const end of endings) await end()
}

async function measure(): Promise<string> {
  const log = quietLog()
  const database = await testDatabase(t)
  const { store, storeFolder } = await testStore(t)
  const cluster = testCluster(t)
  const world = await conversionWorld(database, { store }, cluster)
  const elsewhere = await conversionWorld(database, { store }, cluster)
  const { admin } = database
  const neighbour = newUuid()
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [neighbour, 'bench', neighbour])
  const config = loadConfig(FullWorkerConfig, {
    DATABASE_URL: database.url,
    STORE_KIND: 'folder',
    STORE_FOLDER: storeFolder,
    BUS_KIND: 'memory',
    AUDIT_KEYS,
    NAMESPACE,
    HOST: '127.0.0.1',
    HEALTH_PORT: '0',
    METRICS_PORT: '0',
    LOG_LEVEL: 'silent',
  })
  const bus = openMemoryBus({ log })
  const worker = await startWorker({
    config,
    features: FEATURE_WORKERS,
    db: database.worker,
    store,
    bus,
    cluster,
    log,
    clock: systemClock,
  })
  t.teardown(() => worker.close())

  /** Names of the TranscodeJobs so far. */
  const seen = new Set<string>()
  /** Ends a TranscodeJob, beside others: pods do not wait for each other. */
  async function convert({ metadata: { name }, spec }: Found): Promise<void> {
    const ids = spec.inputs.map(({ id }) => parseId('media', id) as Uuid)
    for (const [i, { outputPrefix }] of spec.inputs.entries()) {
      const manifest = JSON.stringify(anImageManifest(ids[i] as Uuid))
      await store.put(manifestKey(outputPrefix), manifest, { contentType: 'application/json' })
    }
    await cluster.applyStatus(TRANSCODE_JOBS, { namespace: NAMESPACE, name }, succeeded(...ids), 'bench')
  }
  const stopped = new AbortController()
  const converting = (async () => {
    while (!stopped.signal.aborted) {
      for (const job of await cluster.list<Found>(TRANSCODE_JOBS, { namespace: NAMESPACE })) {
        if (seen.has(job.metadata.name)) continue
        seen.add(job.metadata.name)
        void convert(job)
      }
      await sleep(5)
    }
  })()

  const left = async (org: Uuid) => {
    const { rows } = await admin.query<{ n: number }>(
      `select count(*)::int as n from media where org_id = $1 and upload_status = 'processing'`,
      [org],
    )
    return rows[0]?.n ?? 0
  }
  /** Milliseconds from the end of an upload until the photo is completed. */
  async function waitOf(w: ConversionWorld, by: Uuid): Promise<number> {
    const id = await w.upload('image/jpeg', { by })
    const started = performance.now()
    await eventually('a photo', async () => (await w.row(id)).upload_status === 'completed', 600_000)
    return performance.now() - started
  }

  await waitOf(elsewhere, elsewhere.user)
  const idle: number[] = []
  for (let i = 0; i < IDLE_PROBES; i++) idle.push(await waitOf(elsewhere, elsewhere.user))

  const before = seen.size
  const started = performance.now()
  let sent = 0
  const phone = async () => {
    while (sent < PHOTOS) {
      sent++
      await world.upload('image/jpeg')
    }
  }
  const backup = Promise.all(Array.from({ length: AT_ONCE }, phone)).then(() =>
    eventually('the end of the backup', async () => (await left(world.org)) === 0, 3_600_000, 50),
  )
  let isOver = false
  void backup.finally(() => {
    isOver = true
  })
  const [others, here]: [number[], number[]] = [[], []]
  while (!isOver) {
    others.push(await waitOf(elsewhere, elsewhere.user))
    here.push(await waitOf(world, neighbour))
    await sleep(50)
  }
  await backup
  const seconds = (performance.now() - started) / 1000
  stopped.abort()
  await converting
  const ofBackup = seen.size - before - others.length - here.length
  return report({ seconds, jobs: ofBackup, idle, others, here })
}

function report(o: { seconds: number; jobs: number; idle: number[]; others: number[]; here: number[] }): string {
  const verdict = (isMet: boolean) => {
    if (!isMet) process.exitCode = 1
    return isMet ? 'met' : 'MISSED'
  }
  const idle = median(o.idle)
  const row = (name: string, waits: number[]) => {
    const ratio = median(waits) / idle
    const sorted = [...waits].sort((a, b) => a - b)
    const late = sorted[Math.floor(sorted.length * 0.95)] ?? 0
    return `| ${name} | ${waits.length} | ${median(waits).toFixed(0)} | ${late.toFixed(0)} | ${ratio.toFixed(2)} | ≤ ${SLOWER}: ${verdict(ratio <= SLOWER)} |`
  }
  const fewer = PHOTOS / o.jobs
  return [
    `${PHOTOS} photos of one person in ${o.seconds.toFixed(0)} s: ${o.jobs} TranscodeJobs,`,
    `${fewer.toFixed(1)} times fewer than one each (≥ ${FEWER}: ${verdict(fewer >= FEWER)}). Milliseconds from the`,
    'end of an upload until the photo is completed:',
    '',
    '| whose photo | photos | median | 95 % | ratio to idle | target |',
    '|---|---|---|---|---|---|',
    `| anyone's, without the backup | ${o.idle.length} | ${idle.toFixed(0)} | | | |`,
    row('of another organization, during it', o.others),
    row('of another member, during it', o.here),
  ].join('\n')
}
