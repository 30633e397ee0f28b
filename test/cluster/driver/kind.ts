import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { kubectlWith, type RunningCluster, runWith, versionOf } from './cluster.ts'
import { KIND_NAME } from './kind-name.ts'
import { openRunFolder } from './run-folder.ts'

export interface KindCluster extends RunningCluster {
  /** An archive as `docker save` writes it. */
  loadImage(archive: string): Promise<void>
}

/** A cluster in Docker, of this run alone; one whose run was killed is deleted at the next start. */
export async function startKind(): Promise<KindCluster> {
  const run = await openRunFolder()
  const name = `keepsake-${randomBytes(4).toString('hex')}`
  try {
    await writeFile(run.file(KIND_NAME), name)
    const kubeconfig = run.file('admin.kubeconfig')
    await runWith('', ['kind', 'create', 'cluster', `--name=${name}`, `--kubeconfig=${kubeconfig}`, '--wait=180s'])
    const tools = kubectlWith(['kubectl'], kubeconfig)
    const nodeAddress = await gateway()
    return {
      provider: 'kind',
      kubeconfig,
      version: await versionOf(tools),
      ...(nodeAddress && { nodeAddress }),
      ...tools,
      loadImage: async (archive) =>
        void (await runWith('', ['kind', 'load', 'image-archive', archive, `--name=${name}`])),
      stop: () => run.remove(),
    }
  } catch (error) {
    await run.remove()
    throw error
  }
}

/** This machine as the pods see it; on others than Linux, Docker's network ends in a virtual machine. */
async function gateway(): Promise<string | undefined> {
  if (process.platform !== 'linux') return undefined
  const format = '{{range .IPAM.Config}}{{.Gateway}} {{end}}'
  const gateways = await runWith('', ['docker', 'network', 'inspect', 'kind', `--format=${format}`])
  return gateways.split(/\s+/).find((address) => /^\d+(\.\d+){3}$/.test(address))
}
