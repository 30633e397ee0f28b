import { readdirSync } from 'node:fs'
import { Counter, Gauge, type Registry } from 'prom-client'

/**
 * The usual process metrics, read at each scrape. prom-client's default metrics would wake an idle process a hundred
 * times a second to measure the event loop lag.
 */
export function processMetrics(registry: Registry): void {
  const registers = [registry]
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  new Counter({
    name: 'process_cpu_seconds_total',
    help: 'CPU time in seconds',
    registers,
    collect() {
      const { user, system } = process.cpuUsage()
      this.reset()
      this.inc((user + system) / 1e6)
    },
  })
  gauge('process_start_time_seconds', 'Start of the process since the epoch', () => startedAt)
  gauge('process_resident_memory_bytes', 'Resident memory', () => process.memoryUsage.rss())
  gauge('process_open_fds', 'Open file descriptors', openFiles)
  gauge('nodejs_heap_size_total_bytes', 'Heap reserved', () => process.memoryUsage().heapTotal)
  gauge('nodejs_heap_size_used_bytes', 'Heap in use', () => process.memoryUsage().heapUsed)
  gauge(
    'nodejs_external_memory_bytes',
    'Memory outside the heap, such as buffers',
    () => process.memoryUsage().external,
  )
  gauge('nodejs_eventloop_utilization', 'Share of time since the start that the event loop was busy', () => {
    return performance.eventLoopUtilization().utilization
  })
}

const startedAt = Math.round(Date.now() / 1000 - process.uptime())

function openFiles(): number {
  try {
    return readdirSync('/proc/self/fd').length - 1 // minus the descriptor of this read
  } catch {
    return Number.NaN // not on Linux
  }
}
