import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import t from 'tap'
import { eventually } from '../../support/eventually.ts'
import { everyProcess } from '../driver/proc.ts'
import { sweepDeadRuns } from '../driver/run-folder.ts'
import { startChild } from '../driver/start-child.ts'
import { nodeCluster } from '../support.ts'

/** A second cluster with a node beside the one that we are in, whose owner is killed. */
t.setTimeout(1_800_000)
const { kubectl, provider } = await nodeCluster(t)
const skip = provider !== 'modules' && 'this is about clusters from modules'

t.test('nothing is left of a node whose owner was killed, and its neighbour does not notice', { skip }, async (t) => {
  const { child, line: folder } = await startChild('node-child.ts')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await sweepDeadRuns()
  })
  const name = basename(folder)
  const left = async () => ({
    shims: (await everyProcess()).some((p) => p.args.some((a) => a.includes(`${folder}/`))),
    namespace: existsSync(`/run/netns/${name}`),
    mounts: (await readFile('/proc/mounts', 'utf8')).includes(`${folder}/`),
    groups: (await Promise.all(groupsFolders().map((path) => readdir(path)))).flat().includes(name),
    files: existsSync(folder),
  })
  const all = { shims: true, namespace: true, mounts: true, groups: true, files: true }
  t.same(await left(), all, 'while it runs')
  const pods = await podProcesses(name)
  t.ok(pods.length > 0)
  child.kill('SIGKILL')
  await eventually('the end of its own programs', async () => {
    const programs = (await everyProcess()).filter((p) => p.args.some((a) => a.includes(`${folder}/`)))
    return programs.every((p) => p.executable.endsWith('containerd-shim-runc-v2'))
  })
  t.same(await left(), all, 'pods outlive whoever runs them')

  await sweepDeadRuns()
  const none = { shims: false, namespace: false, mounts: false, groups: false, files: false }
  await eventually('the end of everything', async () => JSON.stringify(await left()) === JSON.stringify(none))
  t.same(await podProcesses(name), [])
  const running = new Set((await everyProcess()).map((p) => p.pid))
  t.notOk(pods.some((pid) => running.has(pid)))
  const ready = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
  await eventually('the other cluster to go on', async () => (await kubectl('get', 'nodes', '-o', ready)) === 'True')
})

function groupsFolders(): string[] {
  return ['/sys/fs/cgroup', '/sys/fs/cgroup/memory', '/sys/fs/cgroup/pids'].filter((path) => existsSync(path))
}

/** Whoever is in a control group of that cluster. */
async function podProcesses(name: string): Promise<number[]> {
  const pids = (await everyProcess()).map((p) => p.pid)
  const groups = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '')))
  return pids.filter((_, i) => groups[i]?.includes(`/${name}/`))
}
