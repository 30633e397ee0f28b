import { runChunksJob } from './job.ts'

const exit = await runChunksJob()
// Idle connections to the store must not keep the pod alive.
process.exit(exit)
