import { setTimeout as sleep } from 'node:timers/promises'
import { KubeConfig } from '@kubernetes/client-node'
import { pino } from 'pino'
import { TRANSCODE_JOBS } from '../../crds/transcode-job.ts'
import type { Cluster } from '../../lib/runtime/kube/cluster.ts'
import { openKubeCluster } from '../../lib/runtime/kube/kube-cluster.ts'
import { programConfig } from '../support/program-kinds.ts'
import { jobsBy, latencies, rateOf, requestsOf, spanOf } from './operator-audit.ts'
import { atRate, fill, kubeletOf, many, newResource } from './operator-load.ts'
import { type BenchWorld, CONTENDERS, type Contender, load, openWorld, userOf } from './operator-world.ts'

/** `node test/bench/operator.ts [scenario…]`: all of them, or those named; ROUNDS, RATE and RESOURCES change their size. */
const SCENARIOS = { latency, burst, lives, backlog, restart, idle }
const given = process.argv.slice(2)
const ROUNDS = Number(process.env['ROUNDS'] ?? 3)
/** New resources a second where whole lives are measured: a Job controller and a kubelet need their share. */
const RATE = Number(process.env['RATE'] ?? 5)
const MANY = Number(process.env['RESOURCES'] ?? 10_000)
/** Resources that wait when a contender starts. */
const BACKLOG = Number(process.env['BACKLOG'] ?? 5000)

type Row = Record<string, number>
const results = new Map<Contender, Row[]>()

const median = (values: number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
const quantile = (sorted: number[], q: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN

function note(who: Contender, row: Row): void {
  results.set(who, [...(results.get(who) ?? []), row])
  const text = Object.entries(row).map(([k, v]) => `${k} ${Number(v.toPrecision(3))}`)
  console.log(`${who.padEnd(8)} ${text.join(', ')}`)
}

let serial = 0
async function fresh(world: BenchWorld): Promise<string> {
  const namespace = `bench-${++serial}`
  await world.namespace(namespace)
  return namespace
}

/** 20 new resources a second, with no other controller at work. */
async function latency(world: BenchWorld, cluster: Cluster): Promise<void> {
  const spaces = await Promise.all(alternating().map(() => fresh(world)))
  await world.plane.faults.stopControllers()
  for (const who of alternating()) {
    const namespace = spaces.pop() ?? ''
    const program = await world.start(who, namespace)
    // The first ones warm it up: code is compiled, connections are opened.
    await atRate(cluster, namespace, 100, 20)
    await sleep(5000)
    await world.audit.since()
    const before = await program.cpu()
    await atRate(cluster, namespace, 400, 20)
    await sleep(5000)
    const cpu = (await program.cpu()) - before
    const events = await world.audit.since()
    const found = latencies(events, userOf(who))
    const sorted = found.map((l) => l.whole)
    const own = found.map((l) => l.whole - l.server).sort((a, b) => a - b)
    const ms = { 'p50 ms': quantile(sorted, 0.5), 'p99 ms': quantile(sorted, 0.99) }
    const until = { 'p50 until asked': quantile(own, 0.5), 'p99 until asked': quantile(own, 0.99) }
    note(who, { ...ms, ...until, n: sorted.length, 'CPU ms': (cpu / 400) * 1000 })
    await program.stop()
  }
  await world.plane.faults.startControllers()
}

/** Whole lives, from creation to success, with the Job controller and somebody who says that pods run; requests counted. */
async function lives(world: BenchWorld, cluster: Cluster): Promise<void> {
  for (const who of alternating()) {
    const namespace = await fresh(world)
    const program = await world.start(who, namespace)
    const kubelet = kubeletOf(cluster, namespace, 1000)
    // Ten seconds, so that V8 has compiled what it will compile of it.
    await wave(10 * RATE)
    const measured = 40 * RATE
    await world.audit.since()
    const [before, waited, seen] = [await program.cpu(), kubelet.waited, kubelet.recorded.length]
    await wave(measured)
    const cpu = (await program.cpu()) - before
    const events = await world.audit.since()
    const requests = [...requestsOf(events, userOf(who))].map(([kind, n]) => `${kind} ${n / measured}`)
    const whole = latencies(events, userOf(who)).map((l) => l.whole)
    const recorded = kubelet.recorded.slice(seen).sort((a, b) => a - b)
    note(who, {
      'p50 ms to Job': quantile(whole, 0.5),
      'p99 ms to Job': quantile(whole, 0.99),
      'p50 ms complete to condition': quantile(recorded, 0.5),
      'p99 ms complete to condition': quantile(recorded, 0.99),
      n: Math.min(whole.length, recorded.length),
      'CPU ms': (cpu / measured) * 1000,
    })
    console.log(
      `         per resource: ${requests.join(', ')}; ${kubelet.waited - waited} of ${measured} waited for their pod`,
    )
    await program.stop()
    await kubelet.stop()

    async function wave(n: number): Promise<void> {
      const goal = kubelet.succeeded + n
      await atRate(cluster, namespace, n, RATE)
      for (const end = Date.now() + 120_000; kubelet.succeeded < goal && Date.now() < end; ) await sleep(100)
      await sleep(3000) // what is left to do after success
    }
  }
}

/** 1,000 at once, with no other controller at work. */
async function burst(world: BenchWorld, cluster: Cluster): Promise<void> {
  const spaces = await Promise.all(alternating().map(() => fresh(world)))
  await world.plane.faults.stopControllers()
  for (const who of alternating()) {
    const namespace = spaces.pop() ?? ''
    const program = await world.start(who, namespace)
    await many(50, 10, () => cluster.create(TRANSCODE_JOBS, newResource(namespace)))
    await sleep(3000)
    await world.audit.since()
    const before = await program.cpu()
    await many(1000, 64, () => cluster.create(TRANSCODE_JOBS, newResource(namespace)))
    const events = await world.audit.since()
    for (const end = Date.now() + 60_000; Date.now() < end; await sleep(500)) {
      events.push(...(await world.audit.since()))
      if (latencies(events, userOf(who)).length >= 1000) break
    }
    const { peak } = await program.memory()
    const cpu = (await program.cpu()) - before
    note(who, { 'Jobs per s': 1000 / spanOf(events, userOf(who)), 'CPU ms': cpu, 'peak MiB': peak })
    await program.stop()
  }
  await world.plane.faults.startControllers()
}

/** Started where 5,000 resources wait, with the Job controller, which makes their pods; no pod ever starts. */
async function backlog(world: BenchWorld, cluster: Cluster): Promise<void> {
  for (const who of alternating()) {
    const namespace = await fresh(world)
    await many(BACKLOG, 48, () => cluster.create(TRANSCODE_JOBS, newResource(namespace)))
    await world.audit.since()
    const program = await world.start(who, namespace)
    const events = []
    for (const end = Date.now() + 600_000; Date.now() < end; await sleep(500)) {
      events.push(...(await world.audit.since()))
      if (jobsBy(events, userOf(who)).length >= BACKLOG) break
    }
    const made = jobsBy(events, userOf(who)).length
    if (made < BACKLOG) throw new Error(`${who} made ${made} of ${BACKLOG} Jobs in ten minutes`)
    const cpu = await program.cpu()
    const { peak } = await program.memory()
    note(who, { 'Jobs per s': rateOf(events, userOf(who)), 'CPU ms': (cpu / BACKLOG) * 1000, 'peak MiB': peak })
    const requests = [...requestsOf(events, userOf(who))].map(([kind, n]) => `${kind} ${n}`)
    console.log(`         until the last Job: ${requests.join(', ')}`)
    await program.stop()
    // The other contender must not share the machine with what is left for the Job controller to do.
    while ((await podsIn(world, namespace)) < BACKLOG) await sleep(1000)
  }
}

async function podsIn({ plane }: BenchWorld, namespace: string): Promise<number> {
  const text = await plane.kubectl('get', '--raw', `/api/v1/namespaces/${namespace}/pods?limit=1`)
  const list = JSON.parse(text) as { items: unknown[]; metadata: { remainingItemCount?: number } }
  return list.items.length + (list.metadata.remainingItemCount ?? 0)
}

/** Restarted where 10,000 resources are, half of them finished, half running. */
async function restart(world: BenchWorld, cluster: Cluster): Promise<void> {
  const namespace = await fresh(world)
  await world.plane.faults.stopControllers()
  const config = { ...programConfig, image: 'localhost/keepsake:dev' }
  console.log(`making ${MANY} resources with their Jobs and pods`)
  await fill(cluster, namespace, MANY, config)
  for (const who of alternating()) {
    await world.audit.since()
    const program = await world.start(who, namespace)
    // Each look costs the one that is measured some milliseconds.
    for (; ; await sleep(100)) {
      const done = await program.metric('controller_runtime_reconcile_total')
      if (done >= MANY && (await program.metric('workqueue_depth')) === 0) break
    }
    const seconds = (performance.now() - program.startedAt) / 1000
    const cpu = await program.cpu()
    await sleep(5000)
    const { now, peak } = await program.memory()
    note(who, { 'caught up s': seconds, 'CPU s': cpu, 'RSS MiB': now, 'peak MiB': peak })
    const requests = requestsOf(await world.audit.since(), userOf(who))
    const writes = [...requests].filter(([kind]) => !/^(list|get|watch)/.test(kind))
    console.log(`         writes: ${writes.map(([kind, n]) => `${kind} ${n}`).join(', ') || 'none'}`)
    await program.stop()
  }
  await world.plane.faults.startControllers()
}

/** Nothing to do, but for the lease. Both at the same time. */
async function idle(world: BenchWorld): Promise<void> {
  const programs = []
  for (const who of CONTENDERS) programs.push({ who, program: await world.start(who, await fresh(world)) })
  await sleep(15_000)
  const before = await Promise.all(programs.map(({ program }) => program.cpu()))
  await sleep(60_000)
  const after = await Promise.all(programs.map(({ program }) => program.cpu()))
  for (const [i, { who, program }] of programs.entries()) {
    const cpu = (after[i] ?? 0) - (before[i] ?? 0)
    note(who, { 'CPU s per minute': cpu, 'RSS MiB': (await program.memory()).now, 'start ms': program.startMs })
    await program.stop()
  }
}

const ONLY = process.env['ONLY']
const alternating = () => Array.from({ length: ROUNDS }, () => CONTENDERS.filter((who) => !ONLY || who === ONLY)).flat()

function report(): void {
  const [ours = [], theirs = []] = CONTENDERS.map((who) => results.get(who))
  console.log('\n| median | keepsake | Go | ratio |\n|---|---|---|---|')
  for (const name of Object.keys(ours[0] ?? {})) {
    const [a, b] = [ours, theirs].map((rows) => median(rows.map((row) => row[name] ?? Number.NaN))) as [number, number]
    console.log(`| ${name} | ${a.toPrecision(3)} | ${b.toPrecision(3)} | ${(a / b).toFixed(2)} |`)
  }
  results.clear()
}

const world = await openWorld()
try {
  const config = new KubeConfig()
  config.loadFromFile(world.plane.kubeconfig)
  const cluster = openKubeCluster({ log: pino({ level: 'error' }), config, perSecond: 100_000, burst: 100_000 })
  for (const [name, scenario] of Object.entries(SCENARIOS)) {
    if (given.length > 0 && !given.includes(name)) continue
    console.log(`\n### ${name} (load ${await load()})\n`)
    await scenario(world, cluster)
    report()
    console.log(`(load ${await load()})`)
  }
  await cluster.close()
} finally {
  await world.stop()
}
