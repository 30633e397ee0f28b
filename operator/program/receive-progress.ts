import type { Run } from '../../crds/run.ts'
import type { ProgressReport, ProgressSubject } from '../../lib/contract/progress.ts'
import type { Cluster } from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { LatestWriter } from '../runtime/latest-writer.ts'
import type { SubjectState } from '../runtime/progress-receiver.ts'
import type { ProgramKind } from './kind.ts'
import { isAbout, makesPlayable, PROGRESS_MANAGER, progressFields } from './progress.ts'
import type { ResourceCache } from './resources.ts'

interface Taken {
  subject: ProgressSubject
  report: ProgressReport
  at: Date
}

interface Followed {
  kind: ProgramKind
  resources: Pick<ResourceCache['resources'], 'get'>
}

export interface ProgressWriterOptions {
  cluster: Pick<Cluster, 'applyStatus'>
  isSynced(): boolean
  now(): Date
  log: Log
  intervalMs: number
}

/**
 * Writes the progress of running resources to their status: at most every 5 s per resource, the newest report last; at
 * once for the first report and when something becomes playable. Any replica may write, leading or not.
 */
export function progressWriter(options: ProgressWriterOptions) {
  const { cluster, now, log } = options
  const followed = new Map<string, Followed>()
  const writer = new LatestWriter<Taken>({
    intervalMs: options.intervalMs,
    write,
    onDropped: (uid, error) => log.debug({ err: error, uid }, 'progress dropped'),
  })

  function resourceOf({ kind, namespace, name }: ProgressSubject): Run | undefined {
    const known = followed.get(kind)
    const cached = known?.resources.get({ namespace, name })
    const parsed = cached && known?.kind.parse(cached)
    return parsed && 'resource' in parsed ? parsed.resource : undefined
  }

  async function write(_uid: string, { subject, report, at }: Taken): Promise<void> {
    const kind = followed.get(subject.kind)?.kind
    const resource = resourceOf(subject)
    if (!kind || !isAbout(resource, subject)) return // finished meanwhile: a late 97 % must not replace 100 %
    const fields = progressFields(kind, resource, { report, at })
    if (!fields) return
    const { namespace, name } = subject
    await cluster.applyStatus(kind.resource, { namespace, name }, fields, PROGRESS_MANAGER)
  }

  return {
    /** Accepts reports about the resources of this kind. */
    follow: (kind: ProgramKind, resources: Followed['resources']) =>
      void followed.set(kind.resource.kind, { kind, resources }),
    stateOf(subject: ProgressSubject): SubjectState {
      if (isAbout(resourceOf(subject), subject)) return 'running'
      return options.isSynced() ? 'gone' : 'unknown'
    },
    accept(subject: ProgressSubject, report: ProgressReport): void {
      const urgent = makesPlayable(resourceOf(subject)?.status, report)
      writer.put(subject.uid, { subject, report, at: now() }, { urgent })
    },
    /** Call when the resource was deleted. */
    forget: (uid: string) => writer.forget(uid),
    close: () => writer.close(),
  }
}
