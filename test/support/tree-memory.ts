import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'

const SAMPLE_MS = 5

export interface Peak {
  /** Memory that the kernel cannot drop: pages of files, mapped ones too, do not count. */
  held: number
  /** With the pages of mapped files and of programs, which processes may share. */
  resident: number
}

/**
 * Samples the memory of a process and all its descendants until the returned function is called, which returns the
 * highest sums in bytes. Pictures are held for seconds, so a sample misses none of them. Throws where the kernel does not
 * list children (CONFIG_PROC_CHILDREN): the sums would leave them out.
 */
export function watchMemory(root: number, sampleMs = SAMPLE_MS): () => Peak {
  if (!existsSync(`/proc/self/task/${process.pid}/children`)) throw new Error('The kernel does not list children')
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

/** Only the processes of the tree are read: to look at each of the machine every few milliseconds would take a core. */
function memoryOf(pid: number): Peak {
  const sum: Peak = { held: 0, resident: 0 }
  try {
    const text = readFileSync(`/proc/${pid}/status`, 'latin1')
    const bytes = (field: string) => Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) * 1024
    sum.held = bytes('RssAnon') + bytes('RssShmem')
    sum.resident = bytes('VmRSS')
    for (const child of childrenOf(pid)) {
      const { held, resident } = memoryOf(child)
      sum.held += held
      sum.resident += resident
    }
  } catch {
    // It ended in between.
  }
  return sum
}

/**
 * Of all its threads if it is Node, where a worker thread may have started one. An encoder has fifty, none of which starts
 * a process, and to ask each of them took as long as the encoding.
 */
function childrenOf(pid: number): number[] {
  const threads = mayBeNode(pid) ? readdirSync(`/proc/${pid}/task`) : [pid]
  return threads.flatMap((thread) => childrenOfThread(`/proc/${pid}/task/${thread}/children`))
}

function mayBeNode(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/exe`) === readlinkSync('/proc/self/exe')
  } catch {
    // The kernel does not say it of programs with other rights.
    return true
  }
}

function childrenOfThread(file: string): number[] {
  try {
    return readFileSync(file, 'latin1').split(' ').filter(Boolean).map(Number)
  } catch {
    // This thread ended in between; the children of the others still count.
    return []
  }
}
