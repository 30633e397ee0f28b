import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Usage } from './children.ts'

/** Answers the parent's questions about this process, and ends with the parent. */
const SAMPLE_MS = 10
let peak = 0

const usage = (): Usage => {
  const { user, system } = process.cpuUsage()
  const { rss, heapUsed } = process.memoryUsage()
  return { cpu: (user + system) / 1e6, rss, heapUsed, peak: Math.max(peak, rss) }
}

// Sampling begins when somebody wants a peak, so that it costs nothing where only time is measured.
let sampling = false
const sample = () => {
  peak = Math.max(peak, process.memoryUsage.rss())
}

process.on('message', (what) => {
  if (what === 'collect') {
    setFlagsFromString('--expose-gc')
    runInNewContext('gc')()
  }
  if (what === 'forget') {
    peak = process.memoryUsage.rss()
    if (!sampling) setInterval(sample, SAMPLE_MS).unref()
    sampling = true
  }
  process.send?.(usage())
})
process.once('disconnect', () => process.exit(1))
