import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Container } from './batch-schemas.ts'
import type { Mounts } from './environment.ts'
import { allContainers, type Pod } from './types.ts'

export interface PodFolders {
  /** The working directory of a container that specifies none. */
  root: string
  /** TMPDIR of the pod's programs, so that their temporary files are removed with the pod. */
  tmp: string
  mountsOf(container: Container): Mounts
  /** An existing empty file, as the kubelet provides it. */
  terminationLogOf(container: Container): string
}

/** Makes a folder for each volume of the pod below `root`. */
export function makePodFolders(pod: Pod, root: string): PodFolders {
  const volume = (name: string) => join(root, 'volumes', name)
  const terminationLogOf = (container: Container) => join(root, `${container.name}.termination-log`)
  const tmp = join(root, 'tmp')
  for (const path of [tmp, ...(pod.spec.volumes ?? []).map((v) => volume(v.name))]) {
    mkdirSync(path, { recursive: true, mode: 0o700 })
  }
  for (const container of allContainers(pod)) writeFileSync(terminationLogOf(container), '', { mode: 0o600 })
  return {
    root,
    tmp,
    mountsOf: (container) =>
      new Map((container.volumeMounts ?? []).map((m) => [trimSlash(m.mountPath), volume(m.name)])),
    terminationLogOf,
  }
}

const trimSlash = (path: string) => path.replace(/\/+$/, '')
