import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { KubeConfig } from '@kubernetes/client-node'
import type { Test } from 'tap'
import { parseAllDocuments } from 'yaml'
import { ensureBinaries } from '../cluster/driver/build.ts'
import { runWith, type TestCluster } from '../cluster/driver/cluster.ts'

const CHART = fileURLToPath(new URL('../../charts/keepsake', import.meta.url))
const ANYWHERE = 'some-namespace'

/** The name of its account, and of the one lease that it may take. */
export const OPERATOR = 'keepsake-keepsake-operator'

/**
 * Makes the operator's account in a namespace, with rights there alone or everywhere, and answers with the path of a
 * kubeconfig that is it.
 */
export type MakeAccount = (namespace: string, where?: 'everywhere') => Promise<string>

/**
 * The rights of the chart and no others: what it forgets to grant is missed here, not by those who install it.
 */
export async function operatorAccounts(t: Test, plane: TestCluster, admin: KubeConfig): Promise<MakeAccount> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-accounts-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const values = ['--values', join(CHART, 'ci/minimal.yaml')]
  const more = ['--set', 'jobs.gpu.available=detect', '--set', 'rbac.aggregate=false']
  const template = ['template', 'keepsake', CHART, '--namespace', ANYWHERE, '--show-only', 'templates/rbac.yaml']
  const render = [join(await ensureBinaries(), 'helm'), ...template, ...values, ...more]
  const there = await runWith('', render)
  const everywhere = await runWith('', [...render, '--set', 'watchNamespace=*'])

  return async (namespace, where) => {
    const text = where === 'everywhere' ? everywhere : there
    const objects = parseAllDocuments(text.replaceAll(ANYWHERE, namespace)).map(
      (document) => document.toJS() as unknown,
    )
    const items = objects.filter((object) => object !== null)
    await plane.kubectlIn(
      JSON.stringify({ apiVersion: 'v1', kind: 'List', items }),
      'apply',
      '--server-side',
      '-f',
      '-',
    )
    const create = ['create', 'token', OPERATOR, '--namespace', namespace, '--duration=2h']
    const token = (await plane.kubectl(...create)).trim()
    const file = join(folder, `${namespace}.kubeconfig`)
    const { server, caData, caFile } = admin.getCurrentCluster() ?? {}
    const trusted = caData ? { 'certificate-authority-data': caData } : { 'certificate-authority': caFile }
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'it', cluster: { server, ...trusted } }],
      users: [{ name: 'operator', user: { token } }],
      contexts: [{ name: 'it', context: { cluster: 'it', user: 'operator' } }],
      'current-context': 'it',
    }
    await writeFile(file, JSON.stringify(config), { mode: 0o600 })
    return file
  }
}
