import { Agent, type RequestOptions, request } from 'node:https'
import type { KubeConfig } from '@kubernetes/client-node'
import { ClusterError, type ObjectKey, type Resource } from '../../lib/runtime/kube/cluster.ts'
import { clusterErrorOf, parseStatus } from '../../lib/runtime/kube/errors.ts'

/** Merge patches of `status`, as kubelets send them: production code has no use for these. */
export async function statusPatcher(config: KubeConfig) {
  const options: RequestOptions = {}
  await config.applyToHTTPSOptions(options)
  const agent = new Agent({ ...options, agent: undefined, keepAlive: true, maxSockets: 8 } as object)
  const server = config.getCurrentCluster()?.server ?? ''

  function send(path: string, body: object): Promise<{ code: number; text: string }> {
    const headers = { ...options.headers, 'content-type': 'application/merge-patch+json' }
    return new Promise((resolve, reject) => {
      const call = request(
        `${server}${path}`,
        { ...options, method: 'PATCH', headers, agent, timeout: 60_000 },
        (res) => {
          let text = ''
          res.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
          res.once('error', reject).once('end', () => resolve({ code: res.statusCode ?? 0, text }))
        },
      )
      call.once('error', reject).once('timeout', () => call.destroy(new Error('no answer')))
      call.end(JSON.stringify(body))
    })
  }

  return {
    async setStatus(resource: Resource, { namespace, name }: ObjectKey, status: object): Promise<void> {
      const root = resource.group ? `/apis/${resource.group}` : '/api'
      const scope = namespace ? `/namespaces/${namespace}` : ''
      const path = `${root}/${resource.version}${scope}/${resource.plural}/${name}/status`
      const { code, text } = await send(path, { status }).catch((cause: unknown) => {
        throw new ClusterError('Unavailable', String(cause), { cause })
      })
      if (code >= 300) throw clusterErrorOf(code, parseStatus(text))
    },
    close: () => agent.destroy(),
  }
}
