import { availableParallelism, tmpdir } from 'node:os'
import * as z from 'zod'
import type { ProgressReport } from '../../lib/contract/progress.ts'
import { int } from '../../lib/runtime/config.ts'
import { armFailpoint } from '../../lib/runtime/failpoint.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { openObjectStore, StoreConfig } from '../../lib/runtime/object-store/open.ts'
import { logStages } from '../runtime/log-stages.ts'
import { type ProgressTracker, trackProgress } from '../runtime/progress.ts'
import { openProgressReporter } from '../runtime/progress-reporter.ts'
import { type JobOutcome, loadJobConfig, runJob } from '../runtime/run-job.ts'
import { withScratch } from '../runtime/scratch.ts'
import { PRESETS, type Preset } from './encode-pass.ts'

const EncodeConfig = StoreConfig.extend({
  PROGRESS_URL: z.url({ protocol: /^https?$/ }).optional(),
  PROGRESS_TOKEN: z.string().optional(),
  WORK_FOLDER: z.string().default(tmpdir()),
  /** The CPU request of the pod, rounded up; without a pod, the cores of this machine. */
  CORES: int(0, 100_000).default(availableParallelism()),
  X264_PRESET: z.enum(PRESETS).default('veryfast'),
  KEEPSAKE_FAILPOINT: z.string().optional(),
})

export interface EncodeTools {
  store: ObjectStore
  scratch: string
  cores: number
  preset: Preset
  signal: AbortSignal
  log: Log
  progress: ProgressTracker
}

/**
 * Runs a job program that encodes, and returns its exit code: reads its configuration, `own` included, opens the store,
 * the scratch folder and the progress reporter for `work`, and closes them.
 */
export function runEncodeJob<S extends z.ZodRawShape>(
  name: string,
  own: { config: S; inputs: (config: z.output<z.ZodObject<S>>) => number },
  work: (config: z.output<z.ZodObject<S>>, tools: EncodeTools) => Promise<JobOutcome>,
): Promise<number> {
  return runJob(name, async ({ signal, log }) => {
    // First: an invalid specification is final, also where other variables are wrong.
    const ownConfig = loadJobConfig(z.object(own.config)) as z.output<z.ZodObject<S>>
    const config = loadJobConfig(EncodeConfig)
    armFailpoint(config.KEEPSAKE_FAILPOINT)
    const store = await openObjectStore(config)
    const reporter = openProgressReporter({ url: config.PROGRESS_URL, token: config.PROGRESS_TOKEN, log })
    const now = () => performance.now()
    const logStage = logStages(log, now)
    const report = (of: ProgressReport) => {
      logStage(of)
      reporter.report(of)
    }
    const progress = trackProgress(own.inputs(ownConfig), report, now)
    const { CORES: cores, X264_PRESET: preset } = config
    try {
      return await withScratch(config.WORK_FOLDER, (scratch) =>
        work(ownConfig, { store, scratch, cores, preset, signal, log, progress }),
      )
    } finally {
      await reporter.close()
      await store.close()
    }
  })
}
