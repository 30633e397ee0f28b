import { TRANSCODE_JOBS, type TranscodeJobSpec } from '../../../crds/transcode-job.ts'
import { openS3Store } from '../../../lib/runtime/object-store/s3.ts'
import type { S3Options } from '../../../lib/runtime/object-store/s3-client.ts'
import { clip } from '../../support/clips.ts'
import type { TestCluster } from '../driver/cluster.ts'
import { longClip } from './clips.ts'
import { makeNamespace, type Namespace } from './namespace.ts'
import { runOperator, STORE_SECRET, storeEnvironment } from './operator.ts'
import type { Owner } from './services.ts'

/** What a case starts from: real servers, and sources in the object store. */
export interface Ground {
  cluster: TestCluster
  /** Where pods reach what runs beside the node. */
  address: string
  node: string
  s3: S3Options
}

export const SOURCES = {
  short: 'sources/short',
  middle: 'sources/middle',
  long: 'sources/long',
  shared: 'sources/shared',
  text: 'sources/text',
} as const
export type SourceName = keyof typeof SOURCES | 'missing'

export async function prepareSources(s3: S3Options): Promise<void> {
  const store = openS3Store(s3)
  try {
    await store.upload(await clip('silent'), SOURCES.short, { contentType: 'video/mp4' })
    await store.upload(await clip('streamable'), SOURCES.middle, { contentType: 'video/mp4' })
    await store.upload(await longClip(), SOURCES.long, { contentType: 'video/mp4' })
    await store.upload(await clip('shared62'), SOURCES.shared, { contentType: 'video/mp4' })
    await store.put(SOURCES.text, 'no video at all\n'.repeat(100), { contentType: 'video/mp4' })
  } finally {
    await store.close()
  }
}

export async function nodeName(cluster: TestCluster): Promise<string> {
  return (await cluster.kubectl('get', 'nodes', '-o', 'jsonpath={.items[0].metadata.name}')).trim()
}

export interface World extends Namespace {
  submit(name: string, source: SourceName, spec?: Partial<TranscodeJobSpec>): Promise<void>
  /** Another operator in the place of the one before. */
  /** `meanwhile` is what happens while there is none. */
  restartOperator(change?: Record<string, string>, meanwhile?: () => Promise<unknown>): Promise<void>
}

/** A namespace with an operator and the secret of the store. `store` is more environment for the programs in pods. */
export async function openWorld(
  owner: Owner,
  ground: Ground,
  prefix: string,
  { operator = {}, store = {} }: { operator?: Record<string, string>; store?: Record<string, string> } = {},
): Promise<World> {
  const { cluster, address, s3 } = ground
  const namespace = await makeNamespace(owner, cluster, prefix)
  await namespace.secret(STORE_SECRET, { ...storeEnvironment(s3), ...store })
  let running = await runOperator(owner, namespace, { address, change: operator })
  return {
    ...namespace,
    async submit(name, source, spec = {}) {
      const sourceKey = source === 'missing' ? 'sources/missing' : SOURCES[source]
      const input = { id: name, type: 'video', sourceKey, outputPrefix: `out/${namespace.name}/${name}/` }
      await namespace.kube.create(TRANSCODE_JOBS, {
        apiVersion: 'media.keepsake.dev/v1alpha1',
        kind: 'TranscodeJob',
        metadata: { namespace: namespace.name, name },
        spec: { inputs: [input], accelerator: 'cpu', ...spec },
      })
    },
    async restartOperator(change = {}, meanwhile) {
      await running.close()
      await meanwhile?.()
      running = await runOperator(owner, namespace, { address, change: { ...operator, ...change } })
    },
  }
}
