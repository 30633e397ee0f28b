import { parseTranscodeJob, TRANSCODE_JOBS, type TranscodeJob } from '../../crds/transcode-job.ts'
import type { ProgressReport, ProgressSubject } from '../../lib/contract/progress.ts'
import type { Cluster } from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Caches } from '../jobs/caches.ts'
import { LatestWriter } from '../runtime/latest-writer.ts'
import type { SubjectState } from '../runtime/progress-receiver.ts'
import { isAbout, makesPlayable, PROGRESS_MANAGER, progressFields } from './progress.ts'

interface Taken {
  subject: ProgressSubject
  report: ProgressReport
  at: Date
}

export interface TranscodeProgressOptions {
  cluster: Pick<Cluster, 'applyStatus'>
  caches: Pick<Caches, 'resources'>
  isSynced(): boolean
  now(): Date
  log: Log
  intervalMs: number
}

/**
 * Writes the progress of running TranscodeJobs to their status: at most every 5 s per resource, the newest report last;
 * at once for the first report and when an input becomes playable. Any replica may write, leading or not.
 */
export function transcodeProgress(options: TranscodeProgressOptions) {
  const { cluster, caches, now, log } = options
  const writer = new LatestWriter<Taken>({
    intervalMs: options.intervalMs,
    write,
    onDropped: (uid, error) => log.debug({ err: error, uid }, 'progress dropped'),
  })

  const resourceOf = ({ namespace, name }: ProgressSubject): TranscodeJob | undefined => {
    const cached = caches.resources.get({ namespace, name })
    const parsed = cached && parseTranscodeJob(cached)
    return parsed && 'resource' in parsed ? parsed.resource : undefined
  }

  async function write(_uid: string, { subject, report, at }: Taken): Promise<void> {
    const resource = resourceOf(subject)
    if (!isAbout(resource, subject)) return // finished meanwhile: a late 97 % must not replace 100 %
    const fields = progressFields(resource, { report, at })
    if (!fields) return
    const { namespace, name } = subject
    await cluster.applyStatus(TRANSCODE_JOBS, { namespace, name }, fields, PROGRESS_MANAGER)
  }

  return {
    stateOf(subject: ProgressSubject): SubjectState {
      if (subject.kind !== 'TranscodeJob') return 'gone'
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
export type TranscodeProgressWriter = ReturnType<typeof transcodeProgress>
