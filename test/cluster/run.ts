import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { glob } from 'node:fs/promises'
import { delimiter } from 'node:path'
import { endGroup, endTests, runTests } from '../support/run-tests.ts'
import { type Counts, summary } from '../support/tap-output.ts'
import { ensureBinaries } from './driver/build.ts'
import type { TestCluster } from './driver/cluster.ts'
import { describeCluster, serveFaults } from './driver/description.ts'
import { startKind } from './driver/kind.ts'
import { type NodeCluster, startNodeCluster } from './driver/node.ts'
import { chooseProvider, type Level } from './driver/provider.ts'
import { removeOwnRuns, sweepDeadRuns } from './driver/run-folder.ts'
import { givenCluster, kubectlProgram } from './support.ts'

/**
 * `npm run test:cluster [FILE…]`: what only a real Kubernetes can show. Suites in control-plane/ start a control plane
 * each; those in node/ share one cluster whose node runs real pods of the product's image. `--kind` takes no cluster
 * but kind's; `--up` tests nothing and starts the node's cluster for somebody's own hands. `KEEP=1` keeps the node's
 * cluster after a failure until Ctrl-C. The last line is `N passed, N failed, N skipped`.
 */
const LEVELS: readonly Level[] = ['control-plane', 'node']
const args = process.argv.slice(2)
const only = args.includes('--kind') ? 'kind' : undefined
const files = args.filter((arg) => !arg.startsWith('--'))
const unknown = files.filter((file) => !LEVELS.some((level) => file.includes(`test/cluster/${level}/`)))
if (unknown.length > 0) {
  console.error(`Not suites of test/cluster/control-plane or test/cluster/node: ${unknown.join(' ')}`)
  process.exit(2)
}
const totals: Counts = { passed: 0, failed: 0, skipped: 0 }
let byHandProcess: ChildProcess | undefined

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void giveUp(signal))

await (args.includes('--up') ? onNode(byHand) : runEveryLevel())
// Suites that were killed could not clear up behind themselves.
await sweepDeadRuns()
console.log(`\n${summary(totals)}`)
process.exitCode = totals.failed > 0 ? 1 : 0

async function runEveryLevel(): Promise<void> {
  for (const level of LEVELS) {
    const suites = await suitesOf(level)
    if (suites.length > 0) await runLevel(level, suites)
  }
}

async function suitesOf(level: Level): Promise<string[]> {
  const folder = `test/cluster/${level}/`
  if (files.length > 0) return files.filter((file) => file.includes(folder))
  const found: string[] = []
  for await (const file of glob(`${folder}*.ts`)) found.push(file)
  return found.sort()
}

async function runLevel(level: Level, suites: string[]): Promise<void> {
  const provider = await chooseProvider(level, only)
  if (provider.kind === 'none') return withoutCluster(level, suites, provider.missing)
  try {
    if (provider.kind === 'given') await onShared(level, suites, await givenCluster(provider.kubeconfig))
    else if (provider.kind === 'kind') await onKind(level, suites)
    else if (level === 'node') await onNode((cluster, env, image) => runOnNode(suites, cluster, env, image))
    else await onOwnPlanes(suites)
  } catch (error) {
    console.error(error)
    totals.failed += 1
  }
}

/** One loud line; where everything should be there it is a failure. */
function withoutCluster(level: Level, suites: string[], missing: string): void {
  console.log(`\n!!! The ${level} suites did not run (${suites.length} files): ${missing}\n`)
  if (process.env['CI'] === 'true' || only) totals.failed += 1
  else totals.skipped += suites.length
}

async function onOwnPlanes(suites: string[]): Promise<void> {
  const binaries = await ensureBinaries()
  console.log(`=== ${suites.length} control-plane suites, each on its own Kubernetes from modules (${binaries})`)
  await run(suites, { jobs: 2, env: withPath(binaries) })
}

async function onNode(use: (cluster: NodeCluster, env: Record<string, string>, image: string) => Promise<void>) {
  const binaries = await ensureBinaries()
  const image = await builtImage()
  const cluster = await startNodeCluster()
  try {
    await cluster.faults.loadImage(image.archive)
    const faultSocket = cluster.run.file('faults.sock')
    const server = await serveFaults(cluster.faults, faultSocket)
    const described = describeCluster(cluster, { kubectl: cluster.kubectlProgram, faultSocket })
    await use(cluster, { ...withPath(binaries), ...described }, image.reference)
    server.close()
  } finally {
    await cluster.stop()
  }
}

async function runOnNode(suites: string[], cluster: NodeCluster, env: Record<string, string>, image: string) {
  console.log(`=== ${suites.length} node suites on Kubernetes ${cluster.version} from modules with ${image}`)
  const failed = await run(suites, { jobs: 1, env, enter: cluster.enter })
  if (!failed || process.env['KEEP'] !== '1') return
  await keep(`${[...cluster.enter, cluster.kubectlProgram].join(' ')} --kubeconfig=${cluster.kubeconfig} get pods -A`)
}

/** Nothing is tested: everything is there for somebody who wants to look for themselves. */
async function byHand(cluster: NodeCluster, env: Record<string, string>): Promise<void> {
  const [program = '', ...args] = [...cluster.enter, process.execPath, 'test/cluster/node-support/by-hand.ts']
  const more = { KEEPSAKE_ENTER: cluster.enter.join(' ') }
  const child = spawn(program, args, { stdio: 'inherit', env: { ...process.env, ...env, ...more }, detached: true })
  byHandProcess = child
  const [code] = (await once(child, 'exit')) as [number | null]
  totals.failed += code === 0 ? 0 : 1
}

async function onKind(level: Level, suites: string[]): Promise<void> {
  const image = level === 'node' ? await builtImage() : undefined
  const cluster = await startKind()
  try {
    if (image) await cluster.loadImage(image.archive)
    const failed = await onShared(level, suites, cluster)
    if (failed && process.env['KEEP'] === '1') await keep(`kubectl --kubeconfig=${cluster.kubeconfig} get pods -A`)
  } finally {
    await cluster.stop()
  }
}

async function onShared(level: Level, suites: string[], cluster: TestCluster): Promise<boolean> {
  console.log(`=== ${suites.length} ${level} suites on Kubernetes ${cluster.version} (${cluster.provider})`)
  return run(suites, { jobs: 1, env: describeCluster(cluster, { kubectl: await kubectlProgram() }) })
}

async function run(suites: string[], o: { jobs: number; env: Record<string, string>; enter?: readonly string[] }) {
  const counts = await runTests(suites, { ...o, timeout: 900 })
  for (const name of ['passed', 'failed', 'skipped'] as const) totals[name] += counts[name]
  return counts.failed > 0
}

/** Only node suites need it, and it takes a while. */
async function builtImage() {
  const { buildImage } = await import('./image/build.ts')
  return buildImage()
}

/** helm, kubectl and nats-server for the suites. */
function withPath(binaries: string): Record<string, string> {
  return { PATH: `${binaries}${delimiter}${process.env['PATH'] ?? ''}` }
}

async function keep(command: string): Promise<void> {
  console.log(`\nKept until Ctrl-C. Look at it with\n  ${command}\n`)
  await new Promise(() => setInterval(() => {}, 60_000))
}

async function giveUp(signal: NodeJS.Signals): Promise<never> {
  await endTests(signal)
  if (byHandProcess) await endGroup(byHandProcess, signal)
  await removeOwnRuns().catch(console.error)
  await sweepDeadRuns().catch(console.error)
  process.exit(signal === 'SIGINT' ? 130 : 143)
}
