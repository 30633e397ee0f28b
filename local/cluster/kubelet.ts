import { type ObjectKey, PODS } from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { type PodRun, type PodRunOptions, runPod } from './pod-run.ts'
import type { Store } from './store.ts'
import { isTerminal, type Pod, type PodStatus } from './types.ts'

export interface Kubelet {
  /** The kept output of the pod; undefined when the pod does not exist or has not started. */
  logs(pod: ObjectKey): string | undefined
  /** Starts no more pods, stops those that run and resolves when the last process has ended. */
  close(graceSeconds: number): Promise<void>
}

interface Assigned {
  key: ObjectKey
  run: PodRun
  hasEnded: boolean
}

/** Runs the pods of this node as processes, and carries out deletions of pods. */
export function runKubelet(store: Store, options: PodRunOptions & { log: Log | undefined }): Kubelet {
  const assigned = new Map<string, Assigned>()
  const due = new Set<string>()
  let scheduled: NodeJS.Immediate | undefined
  let isClosing = false

  const stopListening = store.listen(({ resource, object, old }) => {
    if (resource.plural !== PODS.plural || resource.group !== PODS.group) return
    const { namespace, name, uid = '' } = (object ?? old)?.metadata ?? { name: '' }
    if (!object) return void assigned.delete(uid)
    due.add(`${namespace}/${name}`)
    scheduled ??= setImmediate(work)
  })

  function work(): void {
    scheduled = undefined
    const keys = [...due]
    due.clear()
    for (const text of keys) {
      const [namespace = '', name = ''] = text.split('/')
      const pod = store.find<Pod>(PODS, { namespace, name })
      if (pod) sync(pod, { namespace, name })
    }
  }

  function sync(pod: Pod, key: ObjectKey): void {
    const known = assigned.get(pod.metadata.uid ?? '')
    const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = pod.metadata
    if (!deletionTimestamp) {
      if (pod.spec.nodeName !== undefined && !known && !isTerminal(pod)) start(pod, key)
    } else if (known && !known.hasEnded) {
      known.run.stop(deletionGracePeriodSeconds)
    } else {
      finishDeletion(pod, key)
    }
  }

  function start(pod: Pod, key: ObjectKey): void {
    const uid = pod.metadata.uid ?? ''
    const setStatus = (next: (pod: Pod) => PodStatus) => {
      const current = store.find<Pod>(PODS, key)
      // Pods that end because the cluster closes must not be recorded as failed.
      if (current?.metadata.uid === uid && !isClosing) store.setStatus<Pod>(PODS, key, next(current))
    }
    const run = runPod(pod, options, setStatus)
    const record: Assigned = { key, run, hasEnded: false }
    assigned.set(uid, record)
    options.log?.debug({ pod: key.name }, 'pod started')
    void run.ended.then(() => {
      record.hasEnded = true
      reportFailures(key)
      due.add(`${key.namespace}/${key.name}`)
      if (!isClosing) scheduled ??= setImmediate(work)
    })
  }

  /** Logs how containers failed, because the pod object is deleted soon. */
  function reportFailures(key: ObjectKey): void {
    for (const { name, state } of store.find<Pod>(PODS, key)?.status?.containerStatuses ?? []) {
      if (!state?.terminated?.exitCode) continue
      const { exitCode, signal, reason } = state.terminated
      options.log?.info({ pod: key.name, container: name, exitCode, signal, reason }, 'container failed')
    }
  }

  /** No process is left: the object can be deleted after its Job has counted it. */
  function finishDeletion(pod: Pod, key: ObjectKey): void {
    if (!isTerminal(pod)) store.setStatus<Pod>(PODS, key, { ...pod.status, phase: 'Failed' })
    if (pod.metadata.deletionGracePeriodSeconds !== 0 || !pod.metadata.finalizers?.length) {
      store.delete(PODS, key, { uid: pod.metadata.uid ?? '', graceSeconds: 0 })
    }
  }

  return {
    logs(key) {
      const uid = store.find<Pod>(PODS, key)?.metadata.uid ?? ''
      return assigned.get(uid)?.run.output.tail()
    },
    async close(graceSeconds) {
      isClosing = true
      stopListening()
      clearImmediate(scheduled)
      const running = [...assigned.values()].filter((a) => !a.hasEnded)
      for (const { run } of running) run.stop(graceSeconds)
      await Promise.all(running.map(({ run }) => run.ended))
    },
  }
}
