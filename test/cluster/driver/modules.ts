import { createHash } from 'node:crypto'
import { glob, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const MODULES = ['kubernetes', 'etcd', 'containerd', 'dns', 'tools']
const FOLDER = fileURLToPath(new URL('..', import.meta.url))

/** One program to build, and the links by which it is called as others. */
export interface Build {
  what: string
  module: string
  package: string
  binary: string
  links?: readonly string[]
  flags?: readonly string[]
  ldflags?: readonly string[]
}

const KUBERNETES_PROGRAMS = [
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kube-proxy',
  'kubelet',
  'kubectl',
]

/** Everything a cluster is made of. The versions are those of the modules' go.mod files and nowhere else. */
export async function everyBuild(): Promise<Build[]> {
  const kubernetes = await versionIn('kubernetes', 'k8s.io/kubernetes')
  const etcd = await versionIn('etcd', 'go.etcd.io/etcd/server/v3')
  const containerd = await versionIn('containerd', 'github.com/containerd/containerd/v2')
  const coredns = await versionIn('dns', 'github.com/coredns/coredns')
  const helm = await versionIn('tools', 'helm.sh/helm/v4')
  const nats = await versionIn('tools', 'github.com/nats-io/nats-server/v2')
  const [, major = '', minor = ''] = /^v(\d+)\.(\d+)/.exec(kubernetes) ?? []
  const base = 'k8s.io/component-base/version'
  const containerdCommand = (binary: string): Build => ({
    what: `${binary} ${containerd}`,
    module: 'containerd',
    package: `github.com/containerd/containerd/v2/cmd/${binary}`,
    binary,
    flags: ['-tags=no_btrfs no_devmapper no_zfs'],
    ldflags: [`-X github.com/containerd/containerd/v2/version.Version=${containerd}`],
  })
  return [
    {
      what: `Kubernetes ${kubernetes}`,
      module: 'kubernetes',
      package: '.',
      binary: 'kubernetes',
      links: KUBERNETES_PROGRAMS,
      // Unset, the servers call themselves v0.0.0-master, and clients believe them.
      ldflags: [
        `-X ${base}.gitVersion=${kubernetes} -X ${base}.gitMajor=${major} -X ${base}.gitMinor=${minor}`,
        `-X k8s.io/client-go/pkg/version.gitVersion=${kubernetes}`,
      ],
    },
    { what: `etcd ${etcd}`, module: 'etcd', package: '.', binary: 'etcd' },
    containerdCommand('containerd'),
    containerdCommand('containerd-shim-runc-v2'),
    containerdCommand('ctr'),
    { what: `CoreDNS ${coredns}`, module: 'dns', package: '.', binary: 'coredns' },
    {
      what: `helm ${helm}`,
      module: 'tools',
      package: 'helm.sh/helm/v4/cmd/helm',
      binary: 'helm',
      ldflags: [`-X helm.sh/helm/v4/internal/version.version=${helm}`],
    },
    {
      what: `nats-server ${nats}`,
      module: 'tools',
      package: 'github.com/nats-io/nats-server/v2',
      binary: 'nats-server',
    },
    { what: 'pause', module: 'tools', package: './pause', binary: 'pause' },
  ]
}

/** Where a module lies. */
export const moduleFolder = (module: string) => join(FOLDER, module)

/** The oldest Go that every module is content with. */
export async function neededGo(): Promise<string> {
  let needed = '1.26.0'
  for (const module of MODULES) {
    const [, wants = needed] = /^go (\S+)$/m.exec(await goMod(module)) ?? []
    if (!isAtLeast(needed, wants)) needed = wants
  }
  return needed
}

/** Compares versions such as 1.26.3 by their numbers. */
export function isAtLeast(version: string, needed: string): boolean {
  const [have, want] = [version, needed].map((text) => text.split('.').map(Number)) as [number[], number[]]
  const at = want.findIndex((number, i) => number !== (have[i] ?? 0))
  return at === -1 || (have[at] ?? 0) > (want[at] ?? 0)
}

/** The same for the same sources, flags and compiler. */
export async function buildKey(compiler: string, flags: object): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify([compiler, flags, await everyBuild()]))
  const files: string[] = []
  for await (const file of glob(`{${MODULES.join()}}/**/{go.mod,go.sum,*.go}`, { cwd: FOLDER })) {
    files.push(file)
  }
  for (const file of files.sort()) hash.update(file).update(await readFile(join(FOLDER, file)))
  return hash.digest('hex').slice(0, 16)
}

async function versionIn(module: string, path: string): Promise<string> {
  const line = (await goMod(module)).split('\n').find((one) =>
    one
      .trim()
      .replace(/^require /, '')
      .startsWith(`${path} v`),
  )
  if (!line) throw new Error(`${module}/go.mod does not ask for ${path}`)
  return line.slice(line.indexOf(' v') + 1).trim()
}

const goMod = (module: string) => readFile(join(moduleFolder(module), 'go.mod'), 'utf8')
