import { isFinished, type Run, type RunProgress, type RunStatus } from '../../crds/run.ts'
import type { ProgressReport, ProgressSubject } from '../../lib/contract/progress.ts'
import type { ProgramKind } from './kind.ts'

/** The fields of status that belong to the field manager of progress; the operator's own manager has the others. */
const PROGRESS_FIELDS = ['progress', 'accelerator', 'acceleratorReason', 'planReason'] as const
export type ProgressFields = Pick<RunStatus, (typeof PROGRESS_FIELDS)[number]>
export const PROGRESS_MANAGER = 'keepsake-progress'

/** The part of status that is not progress. */
export function withoutProgress(status: RunStatus | undefined): Omit<RunStatus, keyof ProgressFields> {
  const rest = { ...status }
  for (const field of PROGRESS_FIELDS) delete rest[field]
  return rest
}

/** A report with the time of its arrival. */
export interface Received {
  report: ProgressReport
  at: Date
}

/** True for the current Job of this resource: reports of a predecessor are ignored. */
export function isAbout(resource: Run | undefined, subject: ProgressSubject): resource is Run {
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
export function progressFields(kind: ProgramKind, resource: Run, { report, at }: Received): ProgressFields | undefined {
  const old = resource.status
  if (old?.progress && Date.parse(old.progress.updatedAt) > at.getTime()) return undefined
  const known = new Set(kind.outputs(resource.spec).map((o) => o.id))
  const named = [...(old?.progress?.playable ?? []), ...(report.playable ?? [])]
  const playable = [...new Set(named)].filter((id) => known.has(id))
  const accelerator = report.accelerator ?? old?.accelerator
  const acceleratorReason = reasonFor(resource, report)
  // The API server refuses a whole status for one field that the kind does not have.
  const planReason = kind.hasPlanReason && (report.planReason ?? old?.planReason)
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
    ...(planReason && { planReason }),
  }
}

/** A program without a GPU does not know that none became free in time, so the status overrides its reason. */
function reasonFor({ status }: Run, said: Pick<ProgressReport, 'accelerator' | 'acceleratorReason'>) {
  if (!said.accelerator) return status?.acceleratorReason
  return said.accelerator === 'cpu' ? (status?.gpuGivenUp ?? said.acceleratorReason) : said.acceleratorReason
}

/** `1.8x`, as ffmpeg prints it. */
const speedText = (speed: number) => `${speed < 100 ? Math.round(speed * 10) / 10 : Math.round(speed)}x`.slice(0, 16)

/** The progress of a finished resource; undefined when it is recorded already. */
export function finalProgress(
  resource: Run,
  made: { playable: string[]; at: string } & Omit<ProgressFields, 'progress'>,
): ProgressFields | undefined {
  const old = resource.status
  const accelerator = made.accelerator ?? old?.accelerator
  const acceleratorReason = reasonFor(resource, made)
  const planReason = made.planReason ?? old?.planReason
  const isDone = old?.progress?.percent === 100 && old.accelerator === accelerator && old.planReason === planReason
  if (isDone && made.playable.every((id) => old.progress?.playable?.includes(id))) return undefined
  const progress: RunProgress = {
    percent: 100,
    ...(old?.progress?.speed && { speed: old.progress.speed }),
    etaSeconds: 0,
    ...(made.playable.length > 0 && { playable: made.playable }),
    updatedAt: made.at,
  }
  return {
    progress,
    ...(accelerator && { accelerator }),
    ...(acceleratorReason && { acceleratorReason }),
    ...(planReason && { planReason }),
  }
}
