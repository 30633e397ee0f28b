import { readdirSync, readFileSync } from 'node:fs'

const SAMPLE_MS = 5

export interface Peak {
  /** Memory that the kernel cannot drop: pages of files, mapped ones too, do not count. */
  held: number
  /** With the pages of mapped files and of programs, which processes may share. */
  resident: number
}

/**
 * Samples the memory of a process and all its descendants until the returned function is called, which returns the
 * highest sums in bytes. Pictures are held for seconds, so a sample misses none of them.
 */
export function watchMemory(root: number, sampleMs = SAMPLE_MS): () => Peak {
  const peak: Peak = { held: 0, resident: 0 }
  const sample = () => {
    const now = memoryOf(root)
    peak.held = Math.max(peak.held, now.held)
    peak.resident = Math.max(peak.resident, now.resident)
  }
  const timer = setInterval(sample, sampleMs)
  return () => {
    clearInterval(timer)
    return peak
  }
}

function memoryOf(root: number): Peak {
  const processes = new Map(readProcesses().map((p) => [p.pid, p]))
  const sum: Peak = { held: 0, resident: 0 }
  for (const process of processes.values()) {
    if (!descends(process.pid, root, processes)) continue
    sum.held += process.held
    sum.resident += process.resident
  }
  return sum
}

type Sampled = Peak & { pid: number; parent: number }

function descends(pid: number, root: number, processes: ReadonlyMap<number, Sampled>): boolean {
  let at: number | undefined = pid
  while (at !== undefined && at !== root && at > 1) at = processes.get(at)?.parent
  return at === root
}

const readProcesses = (): Sampled[] =>
  readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const text = readFileSync(`/proc/${name}/status`, 'latin1')
      const number = (field: string) => Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0)
      const held = (number('RssAnon') + number('RssShmem')) * 1024
      return [{ pid: Number(name), parent: number('PPid'), held, resident: number('VmRSS') * 1024 }]
    } catch {
      // It ended in between.
      return []
    }
  })
