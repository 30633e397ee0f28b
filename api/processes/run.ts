import { totalmem } from 'node:os'
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { ConfigError } from '../../lib/runtime/config.ts'
import { lifecycle } from '../../lib/runtime/lifecycle.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { metricsListener } from '../health/metrics.ts'
import { openServer } from '../http/open-server.ts'
import { heapOf, MIN_HEAP_MIB, PATIENCE, saysHeap } from './plan.ts'
import { supervise } from './supervise.ts'

interface RunOptions {
  config: { API_PROCESSES: number; NODE_OPTIONS: string; HOST?: string | undefined; METRICS_PORT: number }
  log: Log
  /** Of each process. This one waits a little longer, and kills those that are left. */
  deadlineMs: number
}

/** After the deadline of the processes: until they are killed, and until this one ends. */
const KILL_MS = 2000
const END_MS = 5000

function heapArgs({ API_PROCESSES: processes, NODE_OPTIONS }: RunOptions['config']): string[] {
  if (saysHeap([...process.execArgv, NODE_OPTIONS].join(' '))) return []
  // Without a limit of the container, 0 or a number beyond all memory.
  const memory = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY)
  const heap = heapOf(memory, processes)
  if (heap !== undefined) return [`--max-heap-size=${heap}`]
  const message = `needs ${2 * MIN_HEAP_MIB} MiB of memory for each process; there are ${Math.floor(memory / 2 ** 20)}`
  throw new ConfigError([{ code: 'custom', path: ['API_PROCESSES'], message, input: processes }])
}

/** Runs the API in several processes, serves their metrics together, and ends with them. */
export async function runProcesses({ config, log, deadlineMs }: RunOptions): Promise<void> {
  const execArgv = [...process.execArgv, ...heapArgs(config)]
  const life = lifecycle(log, { deadlineMs: deadlineMs + END_MS, exit: true })
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
    execArgv,
    patience: { ...PATIENCE, stopMs: deadlineMs + KILL_MS },
    log,
    onDied: () => died.inc(),
    onGivenUp(why) {
      process.exitCode = 1
      log.fatal(why)
      void life.stop(why)
    },
  })
  new Gauge({
    name: 'api_processes_listening',
    help: 'Processes of this replica that serve the public port',
    registers: [register],
    collect() {
      this.set(all.listening())
    },
  })
  const read = async () => [await register.getMetricsAsJSON(), ...(await all.metrics())]
  const server = openServer(metricsListener(read), { log })
  life.onStop('metrics', () => server.close(0))
  life.onStop('processes', async () => {
    if (!(await all.stop())) process.exitCode = 1
  })
  await server.listen(config.HOST, config.METRICS_PORT)
  log.info({ metricsUrl: server.url(), processes: config.API_PROCESSES }, 'metrics are served')
}
