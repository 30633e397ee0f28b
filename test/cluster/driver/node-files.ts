import { statfs, writeFile } from 'node:fs/promises'
import { isCgroupV1 } from './cgroups.ts'
import type { RunFolder } from './run-folder.ts'

export const NODE = 'node-1'
export const NODE_ADDRESS = '172.30.0.1'
/** What names of Services end in. */
export const DOMAIN = 'cluster.local'
export const PAUSE_IMAGE = 'localhost/pause:1'
const OVERLAYFS = 0x794c7630
const PODS = '10.244.0.0'

/** On an overlay no second one can be mounted; then layers are copied. */
export async function snapshotterFor(folder: string): Promise<'overlayfs' | 'native'> {
  return (await statfs(folder)).type === OVERLAYFS ? 'native' : 'overlayfs'
}

/** The network of the pods: a bridge in the cluster's namespace. */
export async function writeNetwork(run: RunFolder): Promise<void> {
  const bridge = {
    type: 'bridge',
    bridge: 'cni0',
    isGateway: true,
    hairpinMode: true,
    ipam: {
      type: 'host-local',
      // Where addresses in use are kept; by default all clusters of the machine would share it.
      dataDir: run.file('cni-addresses'),
      ranges: [[{ subnet: `${PODS}/24` }]],
      routes: [{ dst: '0.0.0.0/0' }],
    },
  }
  const plugins = [bridge, { type: 'portmap', capabilities: { portMappings: true } }]
  const file = run.file('cni', '10-keepsake.conflist')
  await writeFile(file, JSON.stringify({ cniVersion: '1.0.0', name: run.name, plugins }))
}

/** containerd with everything it owns in the run's folder. */
export async function writeContainerd(run: RunFolder, programs: { shim: string; runc: string }): Promise<string> {
  const runtime = 'plugins."io.containerd.cri.v1.runtime"'
  const file = run.file('containerd.toml')
  await writeFile(
    file,
    `version = 3
root = "${run.file('containerd/root')}"
state = "${run.file('containerd/state')}"
[grpc]
  address = "${run.file('containerd.sock')}"
[plugins."io.containerd.nri.v1.nri"]
  disable = true # one socket for the whole machine
[plugins."io.containerd.internal.v1.opt"]
  path = "${run.file('containerd/opt')}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "${await snapshotterFor(run.path)}"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "${PAUSE_IMAGE}"
[${runtime}]
  # Without CAP_SYS_RESOURCE runc may not lower oom_score_adj: "can't get final child's PID from pipe: EOF".
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [${runtime}.cni]
    bin_dirs = ["/usr/lib/cni", "/opt/cni/bin"]
    conf_dir = "${run.file('cni')}"
    use_internal_loopback = true
  [${runtime}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    runtime_path = "${programs.shim}"
    [${runtime}.containerd.runtimes.runc.options]
      BinaryName = "${programs.runc}"
      Root = "${run.file('runc')}"
      SystemdCgroup = false
`,
  )
  return file
}

export async function writeProxy(run: RunFolder, kubeconfig: string): Promise<string> {
  const file = run.file('proxy.json')
  const config = {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'iptables',
    clientConnection: { kubeconfig },
    clusterCIDR: `${PODS}/16`,
    hostnameOverride: NODE,
    conntrack: { maxPerCore: 0 },
  }
  await writeFile(file, JSON.stringify(config))
  return file
}

/** Names of Services, for pods; the cluster knows no others. */
export async function writeNames(run: RunFolder, kubeconfig: string): Promise<string> {
  const file = run.file('Corefile')
  await writeFile(
    file,
    `.:53 {
  bind ${NODE_ADDRESS}
  errors
  cache 1
  kubernetes ${DOMAIN} {
    kubeconfig ${kubeconfig}
    ttl 1
  }
}
`,
  )
  return file
}

export async function writeKubelet(run: RunFolder, authority: string): Promise<string> {
  const file = run.file('kubelet.json')
  const config = {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    ...((await isCgroupV1()) && { failCgroupV1: false }),
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${run.name}`,
    containerRuntimeEndpoint: `unix://${run.file('containerd.sock')}`,
    authentication: { anonymous: { enabled: false }, webhook: { enabled: true }, x509: { clientCAFile: authority } },
    authorization: { mode: 'Webhook' },
    tlsCertFile: run.file('pki', 'kubelet.crt'),
    tlsPrivateKeyFile: run.file('pki', 'kubelet.key'),
    failSwapOn: false,
    resolvConf: '/etc/resolv.conf',
    clusterDNS: [NODE_ADDRESS],
    clusterDomain: DOMAIN,
    podLogsDir: run.file('pod-logs'),
    volumePluginDir: run.file('volume-plugins'),
    // A test that stops the kubelet does not want to wait minutes until somebody notices.
    nodeStatusUpdateFrequency: '2s',
    nodeLeaseDurationSeconds: 8,
    evictionHard: { 'memory.available': '100Mi', 'nodefs.available': '1%', 'imagefs.available': '1%' },
    imageGCHighThresholdPercent: 100,
  }
  await writeFile(file, JSON.stringify(config))
  return file
}
