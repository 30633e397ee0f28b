import type { Test } from 'tap'
import { TRANSCODE_JOBS, type TranscodeJob } from '../../../crds/transcode-job.ts'
import {
  type Client,
  library,
  type Media,
  Media as MediaSchema,
  signIn,
  untilConverted,
  upload,
} from '../../../local/demo/client.ts'
import { eventually } from '../../support/eventually.ts'
import type { TestCluster } from '../driver/cluster.ts'
import { nodeCluster } from '../support.ts'
import { makeNamespace, type Namespace, type PodSeen } from './namespace.ts'
import { holdEncoder } from './pod-processes.ts'
import { API_URL, prepareRelease, type Release } from './release.ts'
import { type Services, startServices } from './services.ts'

/** The product as its administrators and its users have it: a release of the chart, and a phone. */
export interface Installation {
  cluster: TestCluster
  namespace: Namespace
  services: Services
  release: Release
  phone: Phone
}

export interface Phone {
  client: Client
  organization: string
  /** In chunks, the last one first. Gives the media's id. `pairId` is that of a Live Photo. */
  upload(path: string, pairId?: string): Promise<string>
  library(): ReturnType<typeof library>
  media(id: string): Promise<Media>
  untilConverted(id: string): Promise<Media>
}

/** Servers, Secrets and the chart, with `more` for helm; resolves when the API answers. */
export async function install(t: Test, more: readonly string[] = []): Promise<Installation> {
  const cluster = await nodeCluster(t)
  const address = cluster.nodeAddress
  if (address === undefined || cluster.provider !== 'modules') {
    t.plan(0, 'addresses of Services lead nowhere from here: only a node in a network namespace of ours has them')
    process.exit()
  }
  const services = await startServices(t, address)
  const namespace = await makeNamespace(t, cluster, 'reunion')
  await namespace.kubectl('label', 'namespace', namespace.name, 'pod-security.kubernetes.io/enforce=restricted')
  const release = await prepareRelease(t, cluster, namespace, services)
  // Other suites on the same cluster bring the custom resource without Helm.
  await release.install('--take-ownership', ...more)
  t.teardown(() => release.helm('uninstall', 'reunion', '--ignore-not-found', '--wait').then(() => undefined))
  return { cluster, namespace, services, release, phone: await phoneOf(services) }
}

async function phoneOf(services: Services): Promise<Phone> {
  const { organizations, accounts } = await services.seed()
  const organization = organizations[0]?.org_id ?? ''
  // It goes from a pod through the identity provider, neither of which has done much yet: one more try says more.
  const account = accounts.member
  const client = await signIn(`${API_URL}/v1`, account).catch(() => signIn(`${API_URL}/v1`, account))
  return {
    client,
    organization,
    upload: (path, pairId) => upload(client, organization, path, () => {}, pairId),
    library: () => library(client, organization),
    media: async (id) => MediaSchema.parse(await client.call('GET', `/api/media/${organization}/${id}`)),
    untilConverted: (id) => untilConverted(client, organization, id, () => {}),
  }
}

/** The TranscodeJob that the worker made for a media. */
export const resourceFor = ({ kube, name: namespace }: Namespace, mediaId: string): Promise<string> =>
  eventually(
    `a TranscodeJob for ${mediaId}`,
    async () => {
      const all = await kube.list<TranscodeJob>(TRANSCODE_JOBS, { namespace })
      return all.find((r) => r.spec.inputs[0]?.id === mediaId)?.metadata.name
    },
    240_000,
    100,
  )

export interface HeldEncode {
  mediaId: string
  resource: string
  pod: PodSeen
  release(): void
}

/** Uploads and stops the encoder in its pod, so that there is a running encode for as long as a test wants. */
export async function heldEncode({ namespace, phone }: Installation, path: string): Promise<HeldEncode> {
  const mediaId = await phone.upload(path)
  const resource = await resourceFor(namespace, mediaId)
  // A short video may be through before the API says that its pod runs.
  const begun = await eventually('a pod', async () => (await namespace.podsOf(resource))[0], 240_000, 50)
  const release = await holdEncoder(begun.metadata.uid ?? '')
  return { mediaId, resource, pod: await namespace.runningPod(resource), release }
}
