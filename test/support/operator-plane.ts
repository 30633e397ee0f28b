import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { KubeConfig } from '@kubernetes/client-node'
import type { Test } from 'tap'
import type { Condition } from '../../crds/kind.ts'
import { KINDS } from '../../crds/kinds.ts'
import { type RunProgress, type RunStatus, succeededOf } from '../../crds/run.ts'
import { type Cluster, EVENTS_V1, JOBS, type KubeObject, PODS, type Resource } from '../../lib/runtime/kube/cluster.ts'
import { openKubeCluster } from '../../lib/runtime/kube/kube-cluster.ts'
import type { Job, Pod } from '../../operator/jobs/batch.ts'
import { NO_HELPERS, OWNER_UID } from '../../operator/jobs/labels.ts'
import { PROGRAM_KINDS } from '../../operator/kinds.ts'
import type { RawResource } from '../../operator/program/kind.ts'
import { PROGRESS_MANAGER } from '../../operator/program/progress.ts'
import type { TestCluster } from '../cluster/driver/cluster.ts'
import { established } from './established.ts'
import { eventually } from './eventually.ts'
import { OPERATOR, operatorAccounts } from './operator-account.ts'
import { type OperatorProcess, startOperatorProcess } from './operator-process.ts'
import { podsByHand } from './pods-by-hand.ts'
import { type Kit, TRANSCODE } from './program-kinds.ts'
import { quietLog } from './quiet-log.ts'
import { statusPatcher } from './status-patch.ts'

/** Many worlds share a machine that may be slow, and the Job controller waits 10, 20, 40 s between attempts. */
const PATIENCE_MS = 240_000
/** What stays need not be seen at once, and each look takes time from the API server that all worlds wait for. */
const PAUSE_MS = 20
const CRDS = KINDS.map(({ plural }) => fileURLToPath(new URL(`../../crds/${plural}.yaml`, import.meta.url)))

/** From now on, every Job there ever is, by namespace: also one that is made twice and removed. */
export function jobsEverMade(kube: Cluster): Map<string, Set<string>> {
  const made = new Map<string, Set<string>>()
  kube.reflect<Job>(JOBS, {
    onSet({ metadata }) {
      const { namespace = '', uid = '' } = metadata
      made.set(namespace, (made.get(namespace) ?? new Set()).add(uid))
    },
    onDelete() {},
  })
  return made
}

/** From now on, every condition that a resource of our kinds has had, oldest first: also one that it had for a moment. */
async function conditionsEverHad(kube: Cluster): Promise<(uid: string | undefined) => readonly Condition[]> {
  const had = new Map<string, Condition[]>()
  const reflections = PROGRAM_KINDS.map(({ resource }) =>
    kube.reflect<RawResource>(resource, {
      onSet({ metadata: { uid = '' }, status }) {
        const all = had.get(uid) ?? []
        const now = succeededOf(status)
        if (now && textOf(now) !== textOf(all.at(-1))) had.set(uid, [...all, now])
      },
      onDelete() {},
    }),
  )
  await Promise.all(reflections.map((r) => r.synced()))
  return (uid = '') => had.get(uid) ?? []
}
const textOf = (c: Condition | undefined) => `${c?.reason}: ${c?.message}`
/** A RegExp is tried on `reason: message`. */
const isLike = (c: Condition, what: string | RegExp) =>
  typeof what === 'string' ? c.reason === what : what.test(textOf(c))

interface StoredEvent extends KubeObject {
  type: string
  reason: string
  note: string
  regarding: { name: string; kind: string }
}

/**
 * A real API server with our CRDs, seen by an administrator, with real operators. There is no node: the Job controller
 * makes pods, the test says what became of them.
 */
export async function operatorPlane(t: Test, plane: TestCluster) {
  for (const file of CRDS) await plane.kubectl('apply', '--server-side', '-f', file)
  await established(plane.kubectl, 'crd', '--all')
  // The garbage collector looks for new kinds every half minute; a new one knows them at once.
  await plane.faults?.stopControllers()
  await plane.faults?.startControllers()
  const config = new KubeConfig()
  config.loadFromFile(plane.kubeconfig)
  const kube = openKubeCluster({ log: quietLog(), config, perSecond: 2000, burst: 2000, timeoutMs: 60_000 })
  const everSaid = await conditionsEverHad(kube)
  const { setStatus, close } = await statusPatcher(config)
  const accountIn = await operatorAccounts(t, plane, config)
  const everywhere = await accountIn('default', 'everywhere')
  t.teardown(async () => {
    await kube.close()
    close()
  })

  /** A namespace of the test's own, as its part of the cluster, for resources of one kind. */
  async function world(t: Test, { kind, newResource, name: kindName }: Kit = TRANSCODE) {
    const namespace = `w-${randomUUID().slice(0, 8)}`
    await plane.kubectl('create', 'namespace', namespace)
    // Without it the Job controller makes no pod, and tries again ever later.
    await eventually('the service account', () =>
      kube.get(
        { group: '', version: 'v1', plural: 'serviceaccounts', kind: 'ServiceAccount' },
        { namespace, name: 'default' },
      ),
    )
    const account = await accountIn(namespace)
    const kubectl = (...args: string[]) => plane.kubectl('--namespace', namespace, ...args)
    const key = (name: string) => ({ namespace, name })
    const resource = (name: string) => kube.get<RawResource>(kind.resource, key(name))
    const status = async (name: string) => (await resource(name))?.status
    const condition = async (name: string) => succeededOf(await status(name))
    const jobs = async (name?: string) =>
      (await kube.list<Job>(JOBS, { namespace })).filter(
        (job) => name === undefined || job.metadata.ownerReferences?.[0]?.name === name,
      )
    /** Of its attempts, oldest first; with this selector instead: of its helpers. */
    async function pods(name: string, of = NO_HELPERS): Promise<Pod[]> {
      const uid = (await resource(name))?.metadata.uid
      if (!uid) return []
      const found = await kube.list<Pod>(PODS, { namespace, labelSelector: `${OWNER_UID}=${uid},${of}` })
      return found.sort((a, b) => ageOf(a).localeCompare(ageOf(b)))
    }
    const live = (name: string) =>
      eventually(`a pod of ${name}`, async () => (await pods(name)).findLast(isLive), PATIENCE_MS, PAUSE_MS)
    /** Waits until the condition is as described, for what stays until the test acts. */
    const says = (name: string, what: string | RegExp, ms = PATIENCE_MS) =>
      eventually(
        `${name} to say ${what}`,
        async () => {
          const c = await condition(name)
          return c && isLike(c, what) ? c : undefined
        },
        ms,
        PAUSE_MS,
      ).catch(async (error: Error) => {
        throw new Error(`${error.message}; it says ${JSON.stringify(await status(name))}`)
      })
    /** Waits until the condition is or has been as described, for what the operator or the scheduler soon replaces. */
    async function said(name: string, what: string | RegExp): Promise<Condition> {
      const uid = (await resource(name))?.metadata.uid
      return eventually(
        `${name} to have said ${what}`,
        () => everSaid(uid).find((c) => isLike(c, what)),
        PATIENCE_MS,
      ).catch((error: Error) => {
        throw new Error(`${error.message}; it said ${JSON.stringify(everSaid(uid).map(textOf))}`)
      })
    }
    /** Waits for a status like this. */
    const becomes = (name: string, isSo: (status: RunStatus) => boolean, ms = PATIENCE_MS) =>
      eventually(
        `a status of ${name}`,
        async () => {
          const now = await status(name)
          return now && isSo(now) ? now : undefined
        },
        ms,
        PAUSE_MS,
      ).catch(async (error: Error) => {
        throw new Error(`${error.message}; it is ${JSON.stringify(await status(name))}`)
      })
    /** Of a resource, newest last, as `Type Reason: note`. */
    async function events(name: string): Promise<string[]> {
      const all = await kube.list<StoredEvent>(EVENTS_V1, { namespace })
      return all
        .filter((e) => e.regarding.name === name && e.regarding.kind === kindName)
        .sort((a, b) => ageOf(a).localeCompare(ageOf(b)))
        .map((e) => `${e.type} ${e.reason}: ${e.note}`)
    }
    return {
      namespace,
      kubectl,
      resource,
      status,
      condition,
      jobs,
      pods,
      live,
      says,
      said,
      becomes,
      /** As the receiver of progress writes it. */
      progress: (name: string, progress: RunProgress) =>
        kube.applyStatus(kind.resource, key(name), { progress, accelerator: 'cpu' }, PROGRESS_MANAGER),
      ...podsByHand({ live, setStatus }),
      submit: (name: string, spec: object = {}) =>
        kube.create(kind.resource, newResource({ metadata: { name, namespace }, spec }) as RawResource),
      edit: (name: string, spec: object) => kube.patch(kind.resource, key(name), { spec }),
      editJob: (name: string, spec: object) => kube.patch(JOBS, key(name), { spec }),
      setStatus: (resource: Resource, name: string, fields: object) => setStatus(resource, key(name), fields),
      awaitJob: (name: string) => eventually(`a Job of ${name}`, async () => (await jobs(name))[0], PATIENCE_MS),
      events,
      /** All events, once one of them is like this. */
      told: (name: string, what: RegExp) =>
        eventually(
          `the event ${what}`,
          async () => {
            const all = await events(name)
            return all.some((e) => what.test(e)) ? all : undefined
          },
          PATIENCE_MS, // the operator sends its events after everything else
          PAUSE_MS,
        ),
      /** An operator for this namespace alone, with a lease of its own and the rights that the chart gives it. */
      operator: (env: Record<string, string> = {}): OperatorProcess =>
        startOperatorProcess(t, account, {
          WATCH_NAMESPACE: namespace,
          LEASE_NAMESPACE: namespace,
          LEASE_NAME: OPERATOR,
          ...env,
        }),
    }
  }

  return {
    plane,
    kube,
    config,
    world,
    setStatus,
    /** An operator for all namespaces. */
    operator: (env: Record<string, string> = {}): OperatorProcess =>
      startOperatorProcess(t, everywhere, { LEASE_NAMESPACE: 'default', LEASE_NAME: OPERATOR, ...env }),
  }
}
export type OperatorWorld = Awaited<ReturnType<Awaited<ReturnType<typeof operatorPlane>>['world']>>

const ageOf = ({ metadata, ...o }: KubeObject) =>
  `${(o as { eventTime?: string }).eventTime ?? metadata.creationTimestamp ?? ''} ${metadata.resourceVersion?.padStart(12, '0')}`
const isLive = (pod: Pod) =>
  !['Succeeded', 'Failed'].includes(pod.status?.phase ?? '') && pod.metadata.deletionTimestamp === undefined
