import { join } from 'node:path'
import type { Test } from 'tap'
import { programPath } from '../support/services/process.ts'
import { ensureBinaries } from './driver/build.ts'
import { kubectlWith, type RunningCluster, type TestCluster, versionOf } from './driver/cluster.ts'
import { type PlaneOptions, startControlPlane } from './driver/control-plane.ts'
import { describedCluster } from './driver/description.ts'
import { startKind } from './driver/kind.ts'
import { chooseProvider } from './driver/provider.ts'

/**
 * A real API server with its controllers. From modules it is this test's own, stopped at its end, with `faults`; one
 * that was given, or kind's, is shared by all. Where there is none the file is skipped loudly, in CI it fails.
 */
export async function controlPlane(t: Test, options: PlaneOptions = {}): Promise<TestCluster> {
  const described = describedCluster()
  if (described && described.provider !== 'modules') return described
  const provider = await chooseProvider('control-plane')
  switch (provider.kind) {
    case 'given':
      return givenCluster(provider.kubeconfig)
    case 'kind':
      return stoppedAfter(t, await startKind())
    case 'modules':
      return stoppedAfter(t, await startControlPlane(options))
    case 'none':
      return skipFile(t, `No Kubernetes here: ${provider.missing}`)
  }
}

/**
 * The same, for suites that move pods by hand as a kubelet would: where real nodes would move them too, the file is
 * skipped, also in CI.
 */
export async function controlPlaneWithoutNodes(t: Test, options: PlaneOptions = {}): Promise<TestCluster> {
  const plane = await controlPlane(t, options)
  const nodes = plane.provider === 'modules' ? '' : await plane.kubectl('get', 'nodes', '-o', 'name')
  if (nodes.trim() === '') return plane
  return skipped(t, 'Real nodes would act on the pods that this file moves by hand')
}

/** The cluster with a node that `npm run test:cluster` has started for all suites in test/cluster/node/. */
export async function nodeCluster(t: Test): Promise<TestCluster> {
  const cluster = describedCluster()
  if (!cluster) return skipFile(t, 'No node: such a file runs by `npm run test:cluster -- FILE`')
  if (!cluster.nodeAddress) return skipFile(t, 'Nothing beside this cluster can be reached from its pods')
  return cluster
}

/** A cluster that somebody has made; KUBECONFIG_TEST_NODE_ADDRESS says where its pods reach this machine. */
export async function givenCluster(kubeconfig: string): Promise<TestCluster> {
  const kubectl = kubectlWith([await kubectlProgram()], kubeconfig)
  const nodeAddress = process.env['KUBECONFIG_TEST_NODE_ADDRESS']
  const version = await versionOf(kubectl)
  return { provider: 'given', kubeconfig, version, ...(nodeAddress && { nodeAddress }), ...kubectl }
}

/** The machine's own, or the one that is built from modules. */
export async function kubectlProgram(): Promise<string> {
  const found = await programPath('kubectl')
  return found ?? join(await ensureBinaries(), 'kubectl')
}

function stoppedAfter(t: Test, cluster: RunningCluster): TestCluster {
  t.teardown(() => cluster.stop())
  return cluster
}

/** Ends the file: without a cluster nothing after this means anything. */
function skipFile(t: Test, why: string): never {
  if (process.env['CI'] === 'true') throw new Error(why)
  return skipped(t, why)
}

function skipped(t: Test, why: string): never {
  process.stderr.write(`\nSKIPPED ${process.argv[1] ?? ''}: ${why}\n`)
  t.plan(0, why)
  process.exit(0)
}
