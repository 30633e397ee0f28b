import { runTranscodeJob } from './job.ts'

const exit = await runTranscodeJob()
// Idle connections to the store must not keep the pod alive.
process.exit(exit)
