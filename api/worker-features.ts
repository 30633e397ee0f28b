import { HighlightSettings, highlightWorker } from './features/highlights/worker.ts'
import { MediaSettings, mediaWorker } from './features/media/worker.ts'
import { WorkerConfig } from './worker/config.ts'

/** What the worker does for the features, in this order. */
export const FEATURE_WORKERS = [mediaWorker, highlightWorker]

/** The environment of the worker with all its features. */
export const FullWorkerConfig = WorkerConfig.extend({ ...MediaSettings.shape, ...HighlightSettings.shape })
