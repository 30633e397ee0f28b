import { existsSync } from 'node:fs'
import { glob, readdir, readFile, readlink, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { kill, removeGroup } from './cgroups.ts'
import { runWith } from './cluster.ts'
import { deleteKindCluster } from './kind-name.ts'
import { everyProcess, type SeenProcess } from './proc.ts'
import { restoreSysctls } from './sysctls.ts'

/**
 * Ends what a cluster has on the machine outside its folder: processes, control groups, mounts, network namespace,
 * files in common places. What belongs to it is known by the folder and by the name, which nobody else has; no process
 * number that was written down is trusted. Works on what is left after any kind of end, and twice.
 */
export async function removeTraces(path: string, name: string): Promise<void> {
  await deleteKindCluster(path)
  const sockets = await shimSockets(path)
  // Kubelet and containerd are among these, so that nobody starts again what is ended next.
  await endAll(`programs of ${path}`, async (p) => isOurs(p.executable) && p.args.some((a) => a.includes(`${path}/`)))
  await removeGroup(name)
  await removeNamespace(name)
  await unmountBelow(path)
  for (const socket of sockets) await rm(socket, { force: true })
  await removeMatching('/var/lib/cni/results', async (file) => file.startsWith(`${name}-`))
  const logs = '/var/log/containers'
  await removeMatching(logs, async (f) => (await readlink(join(logs, f)).catch(() => '')).startsWith(`${path}/`))
  await restoreSysctls(path)
}

const isOurs = (executable: string) =>
  /\/(kubernetes|etcd|coredns|containerd|containerd-shim-runc-v2)$/.test(executable)

async function endAll(what: string, belongs: (process: SeenProcess) => Promise<boolean>): Promise<void> {
  for (let left = 600; left > 0; left--) {
    const running: number[] = []
    for (const seen of await everyProcess()) if (await belongs(seen)) running.push(seen.pid)
    if (running.length === 0) return
    for (const pid of running) kill(pid)
    await sleep(50)
  }
  throw new Error(`Cannot end the ${what}`)
}

/** Who still works in there was started by a test and forgotten. */
async function removeNamespace(name: string): Promise<void> {
  const file = `/run/netns/${name}`
  const namespace = await stat(file).catch(() => undefined)
  if (!namespace) return
  await endAll(`processes in the network namespace ${name}`, async ({ pid }) => {
    const own = await stat(`/proc/${pid}/ns/net`).catch(() => undefined)
    return own?.ino === namespace.ino && own.dev === namespace.dev && pid !== process.pid
  })
  await runWith('', ['ip', 'netns', 'delete', name]).catch((error: unknown) => {
    if (existsSync(file)) throw error
  })
}

/** The innermost first. None may stay: the folder is removed next, and behind a mount may be anybody's files. */
async function unmountBelow(path: string): Promise<void> {
  for (let left = 10; left > 0; left--) {
    const points = await mountsBelow(path)
    if (points.length === 0) return
    // Somebody who clears the same folder away may have been faster.
    for (const point of points.reverse()) await runWith('', ['umount', '--lazy', point]).catch(() => {})
  }
  throw new Error(`Something is still mounted below ${path}`)
}

async function mountsBelow(path: string): Promise<string[]> {
  const lines = (await readFile('/proc/self/mounts', 'utf8').catch(() => '')).split('\n')
  const unescaped = (text: string) =>
    text.replace(/\\(\d{3})/g, (_, code: string) => String.fromCharCode(parseInt(code, 8)))
  return lines.map((line) => unescaped(line.split(' ')[1] ?? '')).filter((point) => point.startsWith(`${path}/`))
}

/** containerd's shims listen below /run, under names that mean nothing; each has noted its own. */
async function shimSockets(path: string): Promise<string[]> {
  const found: string[] = []
  for await (const file of glob(join(path, 'containerd/state/*/k8s.io/*/{address,bootstrap.json}'))) {
    const text = await readFile(file, 'utf8').catch(() => '')
    found.push(...[...text.matchAll(/unix:\/\/(\/run\/containerd\/s\/[0-9a-f]+)/g)].map((match) => match[1] ?? ''))
  }
  return found
}

async function removeMatching(folder: string, matches: (file: string) => Promise<boolean>): Promise<void> {
  for (const file of await readdir(folder).catch(() => [])) {
    if (await matches(file)) await rm(join(folder, file), { force: true })
  }
}
