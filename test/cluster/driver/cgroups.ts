import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** Where the hierarchies are mounted: several with cgroup v1, one with v2. */
async function hierarchies(): Promise<{ path: string; type: string }[]> {
  const lines = (await readFile('/proc/self/mountinfo', 'utf8').catch(() => '')).split('\n')
  return lines.flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ')
    const [path = '', type = ''] = [before.split(' ')[4], after.split(' ')[0]]
    return type.startsWith('cgroup') && path.startsWith('/sys/fs/cgroup') ? [{ path, type }] : []
  })
}

/** Whether the machine has v1 alone or beside v2, which a kubelet refuses unless told otherwise. */
export async function isCgroupV1(): Promise<boolean> {
  return (await hierarchies()).some(({ type }) => type === 'cgroup')
}

/**
 * A group for all pods of one cluster. Kubelets that shared one would end each other's pods, as they do with any that
 * they have not heard of.
 */
export async function makeGroup(name: string): Promise<void> {
  for (const { path, type } of await hierarchies()) {
    await mkdir(join(path, name), { recursive: true })
    if (type === 'cgroup2') await handDown(path, join(path, name))
    // In v1 a new group has no processor and no memory, and nothing can be put into it.
    for (const file of ['cpuset.cpus', 'cpuset.mems']) {
      if (existsSync(join(path, name, file)) && type === 'cgroup') {
        await writeFile(join(path, name, file), await readFile(join(path, file)))
      }
    }
  }
}

/** In v2 a group has the controllers that its parent hands down. */
async function handDown(root: string, group: string): Promise<void> {
  const controllers = (await readFile(join(root, 'cgroup.controllers'), 'utf8')).trim().split(' ').filter(Boolean)
  const wanted = controllers.filter((name) => ['cpuset', 'cpu', 'io', 'memory', 'pids', 'hugetlb'].includes(name))
  if (wanted.length === 0) return
  for (const folder of [root, group]) {
    await writeFile(join(folder, 'cgroup.subtree_control'), wanted.map((name) => `+${name}`).join(' '))
  }
}

/** Ends every process in a group and removes it with all groups below; nothing happens where there is none. */
export async function removeGroup(name: string): Promise<void> {
  const roots = (await hierarchies()).map(({ path }) => join(path, name)).filter((path) => existsSync(path))
  for (let left = 100; left > 0; left--) {
    const groups = (await Promise.all(roots.map(groupsBelow))).flat()
    const members = (await Promise.all(groups.map(processesIn))).flat()
    for (const pid of new Set(members)) kill(pid)
    // The deepest come first. One that is not empty yet stays until the next round.
    for (const group of groups) await rmdir(group).catch(() => {})
    if (!roots.some((path) => existsSync(path))) return
    await sleep(50)
  }
  throw new Error(`The control group ${name} does not go away`)
}

async function groupsBelow(path: string): Promise<string[]> {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => [])
  const below = await Promise.all(entries.filter((e) => e.isDirectory()).map((e) => groupsBelow(join(path, e.name))))
  return [...below.flat(), path]
}

async function processesIn(group: string): Promise<number[]> {
  const text = await readFile(join(group, 'cgroup.procs'), 'utf8').catch(() => '')
  return text.split('\n').filter(Boolean).map(Number)
}

/** Without complaint when it has ended already. */
export function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
