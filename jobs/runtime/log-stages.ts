import type { ProgressReport } from '../../lib/contract/progress.ts'
import type { Log } from '../../lib/runtime/log.ts'

/**
 * Writes a line when a job enters a stage, when its first frames are encoded, and when something can be played, so that
 * the log of a pod tells where its time went. `now` returns milliseconds since the start of the process.
 */
export function logStages(log: Log, now: () => number): (report: ProgressReport) => void {
  let last: ProgressReport | undefined
  let isEncoding = false
  return (report) => {
    const facts = { stage: report.stage, percent: Math.round(report.percent), msSinceStart: Math.round(now()) }
    if (report.stage !== last?.stage) {
      isEncoding = false
      log.info(facts, 'stage')
    } else if (report.stage === 'Encoding' && !isEncoding && report.percent > last.percent) {
      isEncoding = true
      log.info(facts, 'first frames')
    }
    if (playableIn(report) > playableIn(last)) log.info(facts, 'playable')
    last = report
  }
}

const playableIn = (report: ProgressReport | undefined) => report?.playable?.length ?? 0
