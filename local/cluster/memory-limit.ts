import { groupMemory } from './pod-processes.ts'

const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
}

/** The number that a Kubernetes quantity such as `8Gi` or `500m` stands for; undefined when it cannot be read. */
export function numberOf(quantity: string | number | undefined): number | undefined {
  const [, digits, unit = ''] = /^(\d+(?:\.\d+)?)([A-Za-z]*)$/.exec(String(quantity ?? '')) ?? []
  const factor = UNITS[unit]
  return digits === undefined || factor === undefined ? undefined : Number(digits) * factor
}

/** Checks every `everyMs` and calls `kill` once when the process group uses more than `limit` bytes. Linux only. */
export function watchMemory(group: number, limit: number, everyMs: number, kill: () => void) {
  let exceeded = false
  const timer = setInterval(() => {
    if (groupMemory(group) <= limit) return
    exceeded = true
    clearInterval(timer)
    kill()
  }, everyMs)
  return { stop: () => clearInterval(timer), wasExceeded: () => exceeded }
}
