import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { runChunksJob } from '../../jobs/chunks/job.ts'
import { runHighlightJob } from '../../jobs/highlight/job.ts'
import { runTranscodeJob } from '../../jobs/transcode/job.ts'
import { writeLogs } from '../../lib/runtime/log.ts'

/**
 * A process that runs one job after another (job-run.ts): what the program of a Job runs, without the start of a process
 * for each. Each line of standard input is the program and the environment of a job; the mark and the exit code follow
 * what it writes. It ends with its input, and what would end the program of a Job ends it, too.
 */
const MARK = process.argv[2] ?? ''
const JOBS = { chunks: runChunksJob, highlight: runHighlightJob, transcode: runTranscodeJob }

export interface HostedJob {
  program: keyof typeof JOBS
  env: Record<string, string>
}

for await (const line of createInterface({ input: process.stdin })) {
  const { program, env } = JSON.parse(line) as HostedJob
  for (const name of Object.keys(process.env)) delete process.env[name]
  Object.assign(process.env, env)
  const exit = await JOBS[program]()
  // A program would have ended.
  for (const signal of ['SIGTERM', 'SIGINT']) process.removeAllListeners(signal)
  writeLogs()
  writeSync(1, `\n${MARK}${exit}\n`)
}
process.exit()
