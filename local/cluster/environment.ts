import type { Container, EnvVar } from './batch-schemas.ts'
import { numberOf } from './memory-limit.ts'
import { allContainers, type Pod } from './types.ts'

export type Secrets = Readonly<Record<string, Readonly<Record<string, string>>>>

/** The container cannot be started as specified; `message` is for its `waiting` state. */
export class ConfigError extends Error {
  override readonly name = 'CreateContainerConfigError'
}

/** The real folders of the pod by mount path: a process has no mounts of its own. */
export type Mounts = ReadonlyMap<string, string>

/** `/work/x` becomes `<folder>/x` when `/work` is mounted; other paths are unchanged. The longest mount wins. */
export function rewritePath(value: string, mounts: Mounts): string {
  const paths = [...mounts.keys()].sort((a, b) => b.length - a.length)
  const mount = paths.find((path) => value === path || value.startsWith(`${path}/`))
  return mount === undefined ? value : `${mounts.get(mount)}${value.slice(mount.length)}`
}

/** Replaces `$(NAME)` of a known variable; `$$(NAME)` is a literal; anything else is unchanged, as in Kubernetes. */
export const expand = (text: string, env: Readonly<Record<string, string>>): string =>
  text.replace(/\$\$\(|\$\(([^)]+)\)/g, (whole, name: string | undefined) =>
    name === undefined ? '$(' : (env[name] ?? whole),
  )

/**
 * The variables of a container in the order of Kubernetes: `envFrom` first, then `env`; later ones win and may refer to
 * earlier ones. Mount paths are replaced in `env` only, because a Secret may name a folder of this machine.
 */
export function containerEnv(container: Container, pod: Pod, secrets: Secrets, mounts: Mounts): Record<string, string> {
  const env: Record<string, string> = {}
  for (const { prefix = '', secretRef } of container.envFrom ?? []) {
    if (!secretRef) throw new ConfigError('envFrom: only secretRef is supported by the local cluster')
    for (const [key, value] of Object.entries(secretOf(secrets, secretRef))) env[prefix + key] = value
  }
  for (const variable of container.env ?? []) {
    const value = resolveValue(variable, { container, pod, secrets })
    if (value !== undefined) env[variable.name] = rewritePath(expand(value, env), mounts)
  }
  return env
}

function secretOf(secrets: Secrets, { name, optional }: { name: string; optional?: boolean | undefined }) {
  const secret = secrets[name]
  if (!secret && !optional) throw new ConfigError(`secret "${name}" not found`)
  return secret ?? {}
}

interface Source {
  container: Container
  pod: Pod
  secrets: Secrets
}

function resolveValue({ name, value, valueFrom }: EnvVar, { container, pod, secrets }: Source): string | undefined {
  if (!valueFrom) return value ?? ''
  if (valueFrom.fieldRef) return fieldOf(pod, valueFrom.fieldRef.fieldPath)
  if (valueFrom.resourceFieldRef) return resourceOf(container, pod, valueFrom.resourceFieldRef)
  const ref = valueFrom.secretKeyRef
  if (!ref) {
    const known = 'fieldRef, resourceFieldRef and secretKeyRef'
    throw new ConfigError(`env ${name}: only ${known} are supported by the local cluster`)
  }
  const found = secretOf(secrets, ref)[ref.key]
  if (found === undefined && !ref.optional) throw new ConfigError(`couldn't find key ${ref.key} in Secret ${ref.name}`)
  return found
}

type ResourceRef = NonNullable<NonNullable<EnvVar['valueFrom']>['resourceFieldRef']>

/** A request or limit in units of the divisor, rounded up; 0 for one that the container does not have. */
function resourceOf(own: Container, pod: Pod, { containerName, resource, divisor = 1 }: ResourceRef): string {
  const container = containerName === undefined ? own : allContainers(pod).find((c) => c.name === containerName)
  if (!container) throw new ConfigError(`resourceFieldRef: there is no container ${containerName}`)
  const [, list, name = ''] = /^(requests|limits)\.(.+)$/.exec(resource) ?? []
  if (list !== 'requests' && list !== 'limits') throw new ConfigError(`resource ${resource} is not supported`)
  const [amount, unit] = [numberOf(container.resources?.[list]?.[name] ?? 0), numberOf(divisor)]
  if (amount === undefined || !unit) throw new ConfigError(`resource ${resource} cannot be read`)
  return String(Math.ceil(amount / unit))
}

function fieldOf(pod: Pod, path: string): string {
  const entry = /^metadata\.(labels|annotations)\['(.+)'\]$/.exec(path)
  if (entry) return pod.metadata[entry[1] as 'labels' | 'annotations']?.[entry[2] ?? ''] ?? ''
  const fields: Record<string, string | undefined> = {
    'metadata.name': pod.metadata.name,
    'metadata.namespace': pod.metadata.namespace,
    'metadata.uid': pod.metadata.uid,
    'spec.nodeName': pod.spec.nodeName,
    'status.hostIP': '127.0.0.1',
    'status.podIP': '127.0.0.1',
  }
  const value = fields[path]
  if (value === undefined) throw new ConfigError(`fieldPath ${path} is not supported by the local cluster`)
  return value
}
