import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runWith } from './cluster.ts'

/** The file in a run's folder that says which cluster of kind's belongs to it. */
export const KIND_NAME = 'kind-cluster'

/** Deletes the cluster in Docker that belongs to this run, if it has one. */
export async function deleteKindCluster(path: string): Promise<void> {
  const name = await readFile(join(path, KIND_NAME), 'utf8').catch(() => '')
  if (name) await runWith('', ['kind', 'delete', 'cluster', `--name=${name}`])
}
