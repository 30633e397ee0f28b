import { access } from 'node:fs/promises'
import { programPath } from '../../support/services/process.ts'
import { goCommand, goVersion } from './build.ts'
import { runWith } from './cluster.ts'
import { isAtLeast, neededGo } from './modules.ts'

export type Provider =
  | { kind: 'given'; kubeconfig: string }
  | { kind: 'kind' }
  | { kind: 'modules' }
  /** What the machine lacks for the providers that could have been. */
  | { kind: 'none'; missing: string }

export type Level = 'control-plane' | 'node'

/**
 * Who gives us a cluster: one named in KUBECONFIG_TEST (never the user's current context by accident), kind where
 * Docker runs, Kubernetes from modules where Go and Linux are. `only: 'kind'` takes no other.
 */
export async function chooseProvider(level: Level, only?: 'kind'): Promise<Provider> {
  const kubeconfig = process.env['KUBECONFIG_TEST']
  if (kubeconfig && !only) return { kind: 'given', kubeconfig }
  const withoutKind = await missingForKind()
  if (!withoutKind) return { kind: 'kind' }
  if (only) return { kind: 'none', missing: withoutKind }
  const missing = await missingForModules(level)
  if (missing.length === 0) return { kind: 'modules' }
  const list = missing.join(', ')
  return { kind: 'none', missing: `set KUBECONFIG_TEST, or install kind and start Docker, or bring: ${list}` }
}

async function missingForKind(): Promise<string | undefined> {
  if (!(await installed('kind'))) return 'kind is not installed'
  return runWith('', ['docker', 'version', '--format={{.Server.Version}}']).then(
    () => undefined,
    (error: unknown) => `no Docker engine answers (${String(error).slice(-200).trim()})`,
  )
}

/** The Debian package that each program comes from. */
const PROGRAMS: Record<Level, Record<string, string>> = {
  'control-plane': { openssl: 'openssl', setpriv: 'util-linux', flock: 'util-linux' },
  node: {
    nsenter: 'util-linux',
    umount: 'mount',
    tar: 'tar',
    ip: 'iproute2',
    runc: 'runc',
    iptables: 'iptables',
    conntrack: 'conntrack',
    '/usr/lib/cni/bridge': 'containernetworking-plugins',
    buildah: 'buildah',
    mmdebstrap: 'mmdebstrap',
  },
}

async function missingForModules(level: Level): Promise<string[]> {
  if (process.platform !== 'linux') return ['Linux']
  const missing: string[] = []
  const wanted = level === 'node' ? { ...PROGRAMS['control-plane'], ...PROGRAMS.node } : PROGRAMS['control-plane']
  for (const [program, debian] of Object.entries(wanted)) {
    if (!(await installed(program))) missing.push(`the Debian package ${debian}`)
  }
  if (level === 'node' && process.getuid?.() !== 0) missing.push('root')
  const needed = await neededGo()
  const go = await goCommand()
  if (!go || !isAtLeast(await goVersion(go), needed)) missing.push(`Go ${needed} or newer`)
  return [...new Set(missing)]
}

async function installed(program: string): Promise<boolean> {
  const path = await programPath(program)
  if (!path) return false
  return access(path).then(
    () => true,
    () => false,
  )
}
