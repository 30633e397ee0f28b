import { mkdir } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { ensureBinaries } from './build.ts'
import { type Certificates, makeCertificates } from './certificates.ts'
import { type ClusterFaults, kubectlWith, type RunningCluster, versionOf } from './cluster.ts'
import { type Etcd, etcdOf } from './etcd.ts'
import { type Program, program } from './program.ts'
import { openRunFolder, type RunFolder } from './run-folder.ts'

export interface ControlPlaneOptions {
  run: RunFolder
  binaries: string
  port: number
  /** Put in front of every program and of kubectl: a way into a network namespace. */
  enter?: readonly string[]
  /** Where the node's pods reach the API server; the control plane alone listens on 127.0.0.1 only. */
  nodeAddress?: string
  /** More of these for the API server and the controller manager. */
  apiServerFlags?: readonly string[]
  controllerFlags?: readonly string[]
  /** Nobody finds that pods fit on no node: they stay as they are until somebody says that they run. */
  withoutScheduler?: boolean
}

/** The running parts, for those who build a node upon them. */
export interface ControlPlane {
  kubeconfig: string
  certificates: Certificates
  server: string
  kubectl: RunningCluster['kubectl']
  kubectlIn: RunningCluster['kubectlIn']
  faults: Pick<
    ClusterFaults,
    'killApiServer' | 'startApiServer' | 'compactEtcd' | 'stopControllers' | 'startControllers'
  >
  stop(): Promise<void>
}

export type PlaneOptions = Pick<ControlPlaneOptions, 'apiServerFlags' | 'controllerFlags' | 'withoutScheduler'>

/** etcd, API server, controller manager and scheduler on a free port of 127.0.0.1, and no node. */
export async function startControlPlane(options: PlaneOptions = {}): Promise<RunningCluster> {
  const binaries = await ensureBinaries()
  // Between our finding a free port and its being taken, somebody else may come.
  for (let left = 2; ; left--) {
    const run = await openRunFolder()
    try {
      const plane = await runControlPlane({ ...options, run, binaries, port: await serverPort() })
      const { kubeconfig, kubectl, kubectlIn } = plane
      const stop = async () => {
        await plane.stop()
        await run.remove()
      }
      const version = await versionOf(plane)
      return { provider: 'modules', kubeconfig, version, kubectl, kubectlIn, faults: withoutNode(plane.faults), stop }
    } catch (error) {
      await run.remove()
      if (left === 0 || !/address already in use/.test(String(error))) throw error
    }
  }
}

/** Starts the parts in this folder; what was started is ended again when one of them fails. */
export async function runControlPlane(o: ControlPlaneOptions): Promise<ControlPlane> {
  await mkdir(o.run.file('log'), { recursive: true })
  const certificates = await makeCertificates(o.run)
  const server = `https://127.0.0.1:${o.port}`
  const addresses = ['IP:127.0.0.1', 'IP:10.96.0.1', ...(o.nodeAddress ? [`IP:${o.nodeAddress}`] : [])]
  await Promise.all([
    certificates.issue('apiserver', '/CN=kube-apiserver', [
      ...addresses,
      'DNS:localhost',
      'DNS:kubernetes.default.svc',
    ]),
    certificates.issue('admin', '/O=system:masters/CN=admin', ['DNS:admin']),
  ])
  const kubeconfig = await certificates.kubeconfig('admin', server)
  const tools = kubectlWith([...(o.enter ?? []), join(o.binaries, 'kubectl')], kubeconfig)
  const parts = programsOf(o, certificates, kubeconfig)
  const stop = async () => {
    for (const part of [parts.scheduler, parts.controllers, parts.apiServer]) await part.stop('SIGKILL')
    await parts.etcd.stop('SIGKILL')
  }
  const startApiServer = async () => {
    await parts.apiServer.start()
    await parts.apiServer.until(() => tools.kubectl('get', '--raw', '/readyz'))
  }
  const startControllers = async () => {
    await parts.controllers.start()
    // Without it no pod is admitted: it is the first thing that shows that controllers work.
    await parts.controllers.until(() => tools.kubectl('get', 'serviceaccount', 'default', '--namespace=default'))
  }
  try {
    await parts.etcd.start()
    await startApiServer()
    // These two end at once if the API server is not there yet, and are started again if it goes too early.
    await Promise.all([startControllers(), o.withoutScheduler ? undefined : parts.scheduler.start()])
  } catch (error) {
    await stop()
    throw error
  }
  const faults: ControlPlane['faults'] = {
    killApiServer: () => parts.apiServer.stop('SIGKILL'),
    startApiServer,
    stopControllers: () => parts.controllers.stop(),
    startControllers,
    async compactEtcd() {
      // An API server remembers the last changes itself; only a new one must ask etcd.
      await parts.apiServer.stop('SIGKILL')
      await parts.etcd.compact()
      await startApiServer()
    },
  }
  return { kubeconfig, certificates, server, ...tools, faults, stop }
}

function programsOf(o: ControlPlaneOptions, certificates: Certificates, kubeconfig: string) {
  const etcd = etcdOf(o.run, join(o.binaries, 'etcd'))
  const of = (name: string, flags: readonly string[], restarts = false): Program =>
    program({ name, run: o.run, command: [...(o.enter ?? []), join(o.binaries, name), ...flags], restarts })
  const asAdmin = [
    ...['kubeconfig', 'authentication-kubeconfig', 'authorization-kubeconfig'].map((flag) => `--${flag}=${kubeconfig}`),
    '--leader-elect=false',
    '--secure-port=0', // asked by nobody
  ]
  const controllerFlags = [
    ...asAdmin,
    `--service-account-private-key-file=${certificates.serviceAccountKey}`,
    `--root-ca-file=${certificates.authority}`,
    '--allocate-node-cidrs=true',
    '--cluster-cidr=10.244.0.0/16',
    '--kube-api-qps=1000',
    '--kube-api-burst=2000',
    ...(o.controllerFlags ?? []),
  ]
  return {
    etcd,
    apiServer: of('kube-apiserver', apiServerFlags(o, certificates, etcd)),
    controllers: of('kube-controller-manager', controllerFlags, true),
    scheduler: of('kube-scheduler', [...asAdmin, '--kube-api-qps=1000', '--kube-api-burst=2000'], true),
  }
}

function apiServerFlags(o: ControlPlaneOptions, certificates: Certificates, etcd: Etcd): string[] {
  const pki = (name: string) => o.run.file('pki', name)
  const reached = o.nodeAddress
    ? [
        '--bind-address=0.0.0.0',
        `--advertise-address=${o.nodeAddress}`,
        `--kubelet-client-certificate=${pki('admin.crt')}`,
        `--kubelet-client-key=${pki('admin.key')}`,
        `--kubelet-certificate-authority=${certificates.authority}`,
        '--kubelet-preferred-address-types=InternalIP',
      ]
    : // No endpoint may be a loopback address; without pods nobody needs one.
      ['--bind-address=127.0.0.1', '--advertise-address=127.0.0.1', '--endpoint-reconciler-type=none']
  return [
    ...reached,
    `--secure-port=${o.port}`,
    `--etcd-servers=${etcd.url}`,
    `--tls-cert-file=${pki('apiserver.crt')}`,
    `--tls-private-key-file=${pki('apiserver.key')}`,
    `--client-ca-file=${certificates.authority}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${certificates.serviceAccountPublicKey}`,
    `--service-account-signing-key-file=${certificates.serviceAccountKey}`,
    '--authorization-mode=Node,RBAC',
    '--enable-admission-plugins=NodeRestriction',
    '--service-cluster-ip-range=10.96.0.0/16',
    '--allow-privileged=true',
    ...(o.apiServerFlags ?? []),
  ]
}

function withoutNode(faults: ControlPlane['faults']): ClusterFaults {
  const absent = () => Promise.reject(new Error('This cluster has no node'))
  return { ...faults, stopKubelet: absent, startKubelet: absent, loadImage: absent }
}

/** Free, and not one that the kernel hands out to clients: while an API server is away nobody may take its port. */
export async function serverPort(): Promise<number> {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 20_000)
    const server = createServer()
    const free = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
    })
    await new Promise((resolve) => server.close(resolve))
    if (free) return port
  }
}
