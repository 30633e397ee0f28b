import cluster from 'node:cluster'
import { loadConfig } from '../lib/runtime/config.ts'
import { openLog } from '../lib/runtime/log.ts'
import { ApiConfig } from './config.ts'

const config = loadConfig(ApiConfig)
// Drain, then up to one minute for running requests, then close the connections. Kubernetes allows 82 s beyond the drain.
const deadlineMs = (config.DRAIN_SECONDS + 70) * 1000

if (config.API_PROCESSES > 1 && cluster.isPrimary) {
  const { runProcesses } = await import('./processes/run.ts')
  const log = openLog({ program: 'api', level: config.LOG_LEVEL, isShared: true })
  await runProcesses({ config, log, deadlineMs })
} else {
  const { serve } = await import('./serve.ts')
  await serve(config, deadlineMs)
}
