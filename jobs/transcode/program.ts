import { availableParallelism, tmpdir } from 'node:os'
import * as z from 'zod'
import { TranscodeJobSpec } from '../../crds/transcode-job.ts'
import { int, json } from '../../lib/runtime/config.ts'
import { armFailpoint } from '../../lib/runtime/failpoint.ts'
import { openObjectStore, StoreConfig } from '../../lib/runtime/object-store/open.ts'
import { PRESETS } from '../hls/encode-pass.ts'
import { trackProgress } from '../runtime/progress.ts'
import { openProgressReporter } from '../runtime/progress-reporter.ts'
import { loadJobConfig, runJob } from '../runtime/run-job.ts'
import { withScratch } from '../runtime/scratch.ts'
import { transcode } from './transcode.ts'

const Spec = TranscodeJobSpec.pick({ inputs: true, renditions: true, segmentSeconds: true, accelerator: true })

const Config = StoreConfig.extend({
  /** The part of the TranscodeJob's spec that a job needs. */
  JOB_SPEC: json(Spec),
  PROGRESS_URL: z.url({ protocol: /^https?$/ }).optional(),
  PROGRESS_TOKEN: z.string().optional(),
  WORK_FOLDER: z.string().default(tmpdir()),
  /** Node respects the container's CPU limit; ffmpeg would count the host's cores. */
  THREADS: int(1, 64).default(Math.min(64, availableParallelism())),
  X264_PRESET: z.enum(PRESETS).default('veryfast'),
  KEEPSAKE_FAILPOINT: z.string().optional(),
})

const exit = await runJob('transcode', async ({ signal, log }) => {
  const config = loadJobConfig(Config)
  armFailpoint(config.KEEPSAKE_FAILPOINT)
  const store = openObjectStore(config)
  const reporter = openProgressReporter({ url: config.PROGRESS_URL, token: config.PROGRESS_TOKEN, log })
  const progress = trackProgress(config.JOB_SPEC.inputs.length, reporter.report, () => performance.now())
  try {
    return await withScratch(config.WORK_FOLDER, (scratch) =>
      transcode(config.JOB_SPEC, {
        store,
        scratch,
        threads: config.THREADS,
        preset: config.X264_PRESET,
        signal,
        log,
        progress,
      }),
    )
  } finally {
    await reporter.close()
    await store.close()
  }
})
// Idle connections to the store must not keep the pod alive.
process.exit(exit)
