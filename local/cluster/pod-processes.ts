import { readdirSync, readFileSync } from 'node:fs'

/** Processes as /proc of Linux shows them; empty on other systems. */
interface ProcessStat {
  group: number
  rssPages: number
}

/** Undefined when the process has ended or the system has no /proc. */
function statOf(pid: string): ProcessStat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The second field is the program's name in parentheses and may contain any character: count from the last one.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { group: Number(fields[2]), rssPages: Number(fields[21]) }
  } catch {
    return undefined
  }
}

export function listPids(): string[] {
  try {
    return readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  } catch {
    return []
  }
}

/** The environment that a process was started with; empty when it has ended or belongs to another user. */
export function environOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
  } catch {
    return []
  }
}

const PAGE_BYTES = 4096

/** Resident memory of all processes of a group; pages that they share count for each. */
export function groupMemory(group: number): number {
  const members = listPids()
    .map(statOf)
    .filter((stat) => stat?.group === group)
  return members.reduce((bytes, stat) => bytes + (stat?.rssPages ?? 0) * PAGE_BYTES, 0)
}

/** Kills a whole process group; does nothing when it has ended. */
export function killGroup(group: number): void {
  try {
    process.kill(-group, 'SIGKILL')
  } catch {
    // ESRCH: the group has ended. EPERM cannot occur: the group consists of our own children.
  }
}
