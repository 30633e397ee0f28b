import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { ensureBinaries } from '../driver/build.ts'
import { runWith, type TestCluster } from '../driver/cluster.ts'

export const CHART = fileURLToPath(new URL('../../../charts/keepsake', import.meta.url))
export const NAMESPACE = 'keepsake'
export const MINIMAL = join(CHART, 'ci', 'minimal.yaml')
/** Without a node no Job ends, and Helm waits for the one that migrates. */
export const INSTALLABLE = ['--values', MINIMAL, '--set', 'migrations.enabled=false']

export interface Helm {
  /** Removed at the end of the test. */
  folder: string
  /** In NAMESPACE; throws what Helm complained about. */
  helm(...args: string[]): Promise<string>
}

/** Helm with a home of its own, against this cluster, whose namespaces admit only restricted pods. */
export async function withHelm(t: Test, cluster: TestCluster): Promise<Helm> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-chart-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  for (const name of [NAMESPACE, 'media']) {
    await cluster.kubectl('create', 'namespace', name)
    await cluster.kubectl('label', 'namespace', name, 'pod-security.kubernetes.io/enforce=restricted')
  }
  const program = join(await ensureBinaries(), 'helm')
  const homes = { HELM_CACHE_HOME: folder, HELM_CONFIG_HOME: folder, HELM_DATA_HOME: folder }
  const env = { ...homes, KUBECONFIG: cluster.kubeconfig }
  return { folder, helm: (...args) => runWith('', [program, ...args, '--namespace', NAMESPACE], env) }
}
