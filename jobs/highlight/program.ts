import { runHighlightJob } from './job.ts'

const exit = await runHighlightJob()
// Idle connections to the store must not keep the pod alive.
process.exit(exit)
