import { isFinished, type RunProgress, type RunStatus } from '../../crds/run.ts'
import type { TranscodeJob } from '../../crds/transcode-job.ts'
import type { ProgressReport, ProgressSubject } from '../../lib/contract/progress.ts'

/** The part of status that belongs to the field manager of progress. */
export type ProgressFields = Pick<RunStatus, 'progress' | 'accelerator' | 'acceleratorReason'>
export const PROGRESS_MANAGER = 'keepsake-progress'

/** A report with the time of its arrival. */
export interface Received {
  report: ProgressReport
  at: Date
}

/** True for the current Job of this resource: reports of a predecessor are ignored. */
export function isAbout(resource: TranscodeJob | undefined, subject: ProgressSubject): resource is TranscodeJob {
  if (!resource || resource.metadata.uid !== subject.uid || resource.metadata.deletionTimestamp) return false
  if (isFinished(resource.status)) return false
  return resource.status?.jobName === undefined || resource.status.jobName === subject.jobName
}

/** True when the report names an input as playable that the status does not. */
export const makesPlayable = (status: RunStatus | undefined, report: ProgressReport): boolean =>
  (report.playable ?? []).some((id) => !status?.progress?.playable?.includes(id))

/**
 * The fields to write for a report; undefined when another replica has already written a newer one. `playable` only
 * grows: published files stay, even while another attempt starts over.
 */
export function progressFields(resource: TranscodeJob, { report, at }: Received): ProgressFields | undefined {
  const old = resource.status
  if (old?.progress && Date.parse(old.progress.updatedAt) > at.getTime()) return undefined
  const known = new Set(resource.spec.inputs.map((i) => i.id))
  const named = [...(old?.progress?.playable ?? []), ...(report.playable ?? [])]
  const playable = [...new Set(named)].filter((id) => known.has(id))
  const accelerator = report.accelerator ?? old?.accelerator
  const acceleratorReason = reasonFor(resource, report)
  return {
    progress: {
      percent: Math.floor(report.percent),
      ...(report.speed !== null && { speed: speedText(report.speed) }),
      ...(report.etaSeconds !== null && { etaSeconds: report.etaSeconds }),
      stage: report.stage,
      ...(playable.length > 0 && { playable }),
      updatedAt: at.toISOString(),
    },
    ...(accelerator && { accelerator }),
    ...(acceleratorReason && { acceleratorReason }),
  }
}

/** A program without a GPU does not know that none became free in time, so the status overrides its reason. */
function reasonFor({ status }: TranscodeJob, said: Pick<ProgressReport, 'accelerator' | 'acceleratorReason'>) {
  if (!said.accelerator) return status?.acceleratorReason
  return said.accelerator === 'cpu' ? (status?.gpuGivenUp ?? said.acceleratorReason) : said.acceleratorReason
}

/** `1.8x`, as ffmpeg prints it. */
const speedText = (speed: number) => `${speed < 100 ? Math.round(speed * 10) / 10 : Math.round(speed)}x`.slice(0, 16)

/** The progress of a finished resource; undefined when it is recorded already. */
export function finalProgress(
  resource: TranscodeJob,
  made: { playable: string[]; at: string } & Pick<ProgressFields, 'accelerator' | 'acceleratorReason'>,
): ProgressFields | undefined {
  const old = resource.status
  const accelerator = made.accelerator ?? old?.accelerator
  const acceleratorReason = reasonFor(resource, made)
  const isDone = old?.progress?.percent === 100 && old.accelerator === accelerator
  if (isDone && made.playable.every((id) => old.progress?.playable?.includes(id))) return undefined
  const progress: RunProgress = {
    percent: 100,
    ...(old?.progress?.speed && { speed: old.progress.speed }),
    etaSeconds: 0,
    ...(made.playable.length > 0 && { playable: made.playable }),
    updatedAt: made.at,
  }
  return { progress, ...(accelerator && { accelerator }), ...(acceleratorReason && { acceleratorReason }) }
}
