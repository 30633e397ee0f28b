import { Counter, collectDefaultMetrics, Registry } from 'prom-client'
import { lifecycle } from '../../lib/runtime/lifecycle.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { metricsListener } from '../health/metrics.ts'
import { openServer } from '../http/open-server.ts'
import { supervise } from './supervise.ts'

interface RunOptions {
  config: { API_PROCESSES: number; HOST: string; METRICS_PORT: number }
  log: Log
  deadlineMs: number
}

/** Runs the API in several processes, serves their metrics together, and ends with them. */
export async function runProcesses({ config, log, deadlineMs }: RunOptions): Promise<void> {
  const life = lifecycle(log, { deadlineMs, exit: true })
  const register = new Registry()
  register.setDefaultLabels({ process: 'supervisor' })
  collectDefaultMetrics({ register })
  const died = new Counter({
    name: 'api_processes_died_total',
    help: 'Processes of this replica that ended and were not told to',
    registers: [register],
  })
  const all = supervise({
    count: config.API_PROCESSES,
    log,
    onDied: () => died.inc(),
    onGivenUp(why) {
      process.exitCode = 1
      log.fatal(why)
      void life.stop(why)
    },
  })
  const read = async () => [await register.getMetricsAsJSON(), ...(await all.metrics())]
  const server = openServer(metricsListener(read), { log })
  life.onStop('metrics', () => server.close(0))
  life.onStop('processes', () => all.stop())
  await server.listen(config.HOST, config.METRICS_PORT)
  log.info({ metricsUrl: server.url(), processes: config.API_PROCESSES }, 'metrics are served')
}
