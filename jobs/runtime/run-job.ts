import * as z from 'zod'
import { EXIT, type JobResult } from '../../lib/contract/job-result.ts'
import { ConfigError, JobLogConfig, loadConfig } from '../../lib/runtime/config.ts'
import { onSignal } from '../../lib/runtime/lifecycle.ts'
import { type Log, openLog } from '../../lib/runtime/log.ts'
import { KUBERNETES_LOG, writeTerminationLog } from '../../lib/runtime/termination-log.ts'
import { failureOf, PermanentError, TransientError } from './failure.ts'
import { terminationMessage } from './termination-message.ts'

export interface JobContext {
  /** Aborted on SIGTERM; ends every child process and transfer. */
  signal: AbortSignal
  log: Log
}

/** The outcome of a job program: the exit code of the contract and the result for the termination log. */
export interface JobOutcome {
  exit: number
  result: JobResult
}

/** Shorter than the grace period after which the kubelet kills the pod, so that the job can still write its result. */
const GIVE_UP_MS = 20_000

/**
 * Runs one job program and returns its exit code. Handles the termination log, the exit codes and SIGTERM; `work`
 * returns an outcome or throws. A result that cannot be written does not change the exit code.
 */
export async function runJob(program: string, work: (context: JobContext) => Promise<JobOutcome>): Promise<number> {
  const log = openLog({ program, level: loadConfig(JobLogConfig).LOG_LEVEL })
  const { TERMINATION_LOG } = loadConfig(z.object({ TERMINATION_LOG: z.string().default(KUBERNETES_LOG) }))
  const stop = new AbortController()
  onSignal(() => {
    log.info('terminated')
    stop.abort(new Error('Terminated'))
    setTimeout(() => process.exit(EXIT.terminated), GIVE_UP_MS).unref()
  })
  const outcome = await work({ signal: stop.signal, log }).catch((error: unknown) => outcomeOf(error, stop.signal, log))
  await writeTerminationLog(TERMINATION_LOG, terminationMessage(outcome.result), log)
  log.info({ exit: outcome.exit, reason: outcome.result.reason }, 'finished')
  return outcome.exit
}

function outcomeOf(error: unknown, signal: AbortSignal, log: Log): JobOutcome {
  if (signal.aborted) {
    return { exit: EXIT.terminated, result: { ok: false, reason: 'Terminated', message: 'The attempt was stopped' } }
  }
  log.error({ err: error }, 'failed')
  const { code, reason, message } = failureOf(error)
  return { exit: code, result: { ok: false, reason, message } }
}

/**
 * `loadConfig` for a job. An invalid JOB_SPEC is permanent: no further attempt changes it. All other variables come
 * from Secrets and the chart; an administrator's mistake there must not fail uploads for good.
 */
export function loadJobConfig<S extends z.ZodObject>(schema: S): Readonly<z.output<S>> {
  try {
    return loadConfig(schema)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    throw error.variables.includes('JOB_SPEC')
      ? new PermanentError(EXIT.badSpec, 'BadSpec', error.message, { cause: error })
      : new TransientError(EXIT.transient, 'BadConfiguration', error.message, { cause: error })
  }
}
