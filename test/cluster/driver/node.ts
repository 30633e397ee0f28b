import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { programPath } from '../../support/services/process.ts'
import { ensureBinaries } from './build.ts'
import { makeGroup } from './cgroups.ts'
import { type ClusterFaults, type RunningCluster, runWith, versionOf } from './cluster.ts'
import { type ControlPlane, runControlPlane } from './control-plane.ts'
import {
  DOMAIN,
  NODE,
  NODE_ADDRESS,
  snapshotterFor,
  writeContainerd,
  writeKubelet,
  writeNames,
  writeNetwork,
  writeProxy,
} from './node-files.ts'
import { writePauseImage } from './pause-image.ts'
import { program } from './program.ts'
import { openRunFolder, type RunFolder } from './run-folder.ts'
import { rememberSysctls } from './sysctls.ts'

export interface NodeCluster extends RunningCluster {
  faults: ClusterFaults
  nodeAddress: string
  run: RunFolder
  /** Put in front of a command to run it in the node's network. */
  enter: readonly string[]
  /** kubectl for whoever is in that network already. */
  kubectlProgram: string
}

/**
 * A cluster of one node in a network namespace of its own: no way out, no port of the machine taken, others beside it
 * not disturbed. Resolves when the node is ready.
 */
export async function startNodeCluster(): Promise<NodeCluster> {
  const binaries = await ensureBinaries()
  const run = await openRunFolder()
  try {
    return await startIn(run, binaries)
  } catch (error) {
    await run.remove()
    throw error
  }
}

async function startIn(run: RunFolder, binaries: string): Promise<NodeCluster> {
  // Not `ip netns exec`: it mounts another /sys, and the kubelet then finds no control groups.
  const enter = ['nsenter', `--net=/run/netns/${run.name}`]
  for (const folder of ['log', 'cni', 'containerd']) await mkdir(run.file(folder))
  await makeNetwork(run, enter)
  await makeGroup(run.name)
  await rememberSysctls(run.path)
  const plane = await runControlPlane({
    run,
    binaries,
    port: 6443,
    enter,
    nodeAddress: NODE_ADDRESS,
    controllerFlags: ['--node-monitor-period=2s', '--node-monitor-grace-period=15s'],
  })
  const node = await startNode({ run, binaries, enter, plane })
  const version = await versionOf(plane)
  const { kubeconfig, kubectl, kubectlIn } = plane
  return {
    provider: 'modules',
    kubeconfig,
    version,
    nodeAddress: NODE_ADDRESS,
    kubectl,
    kubectlIn,
    faults: { ...plane.faults, ...node.faults },
    run,
    enter,
    kubectlProgram: join(binaries, 'kubectl'),
    async stop() {
      await node.stop()
      await plane.stop()
      await run.remove()
    },
  }
}

async function makeNetwork(run: RunFolder, enter: readonly string[]): Promise<void> {
  const inside = (...command: string[]) => runWith('', [...enter, ...command])
  await runWith('', ['ip', 'netns', 'add', run.name])
  await inside('ip', 'link', 'set', 'lo', 'up')
  // Stands for the machine's own interface; not every kernel has `dummy`.
  await inside('ip', 'link', 'add', 'node0', 'type', 'bridge')
  await inside('ip', 'addr', 'add', `${NODE_ADDRESS}/24`, 'dev', 'node0')
  await inside('ip', 'link', 'set', 'node0', 'up')
  // A kubelet does not start without a default route; nobody has this address.
  await inside('ip', 'route', 'add', 'default', 'via', '172.30.0.2', 'dev', 'node0')
  await inside('sh', '-c', 'echo 1 >/proc/sys/net/ipv4/ip_forward')
}

/** Asks as a pod would; fails while nobody answers. */
const FIND_KUBERNETES = `
  const resolver = new (require('node:dns').promises.Resolver)({ timeout: 1000, tries: 1 })
  resolver.setServers(['${NODE_ADDRESS}'])
  resolver.resolve4('kubernetes.default.svc.${DOMAIN}')
`

interface NodeParts {
  run: RunFolder
  binaries: string
  enter: readonly string[]
  plane: ControlPlane
}

async function startNode({ run, binaries, enter, plane }: NodeParts) {
  const binary = (name: string) => join(binaries, name)
  const subjects = [`DNS:${NODE}`, `IP:${NODE_ADDRESS}`, 'IP:127.0.0.1']
  await plane.certificates.issue('kubelet', `/O=system:nodes/CN=system:node:${NODE}`, subjects)
  const kubeconfig = await plane.certificates.kubeconfig('kubelet', plane.server)
  const runc = (await programPath('runc')) ?? '/usr/sbin/runc'
  const [containerdFile, proxyFile, namesFile, kubeletFile] = await Promise.all([
    writeContainerd(run, { shim: binary('containerd-shim-runc-v2'), runc }),
    writeProxy(run, plane.kubeconfig),
    writeNames(run, plane.kubeconfig),
    writeKubelet(run, plane.certificates.authority),
    writeNetwork(run),
  ])

  const env = { PATH: `${binaries}:${process.env['PATH'] ?? ''}:/usr/sbin:/sbin` }
  const part = (name: string, flags: string[]) =>
    program({ name, run, command: [...enter, binary(name), ...flags], env })
  const containerd = part('containerd', [`--config=${containerdFile}`])
  const proxy = part('kube-proxy', [`--config=${proxyFile}`])
  const names = part('coredns', [`-conf=${namesFile}`])
  const kubelet = part('kubelet', [
    `--config=${kubeletFile}`,
    `--kubeconfig=${kubeconfig}`,
    `--hostname-override=${NODE}`,
    `--root-dir=${run.file('kubelet')}`,
    `--node-ip=${NODE_ADDRESS}`,
  ])

  const ctr = [...enter, binary('ctr'), `--address=${run.file('containerd.sock')}`, '--namespace=k8s.io']
  const snapshotter = `--snapshotter=${await snapshotterFor(run.path)}`
  const loadImage = async (archive: string) =>
    void (await runWith('', [...ctr, 'images', 'import', '--local', snapshotter, archive]))
  const startKubelet = async () => {
    await kubelet.start()
    const ready = ['wait', '--for=condition=Ready', `node/${NODE}`, '--timeout=1s']
    await kubelet.until(() => plane.kubectl(...ready))
  }
  const stop = async () => {
    for (const one of [kubelet, names, proxy, containerd]) await one.stop('SIGKILL')
  }
  try {
    await Promise.all([containerd.start(), proxy.start(), names.start()])
    await containerd.until(() => runWith('', [...ctr, 'version']))
    await loadImage(await writePauseImage(run, binaries))
    await names.until(() => runWith('', [...enter, process.execPath, '--eval', FIND_KUBERNETES]))
    await startKubelet()
  } catch (error) {
    await stop()
    await plane.stop()
    throw error
  }
  return { stop, faults: { loadImage, startKubelet, stopKubelet: () => kubelet.stop() } }
}
