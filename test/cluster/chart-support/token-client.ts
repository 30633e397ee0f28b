import { request } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TestCluster } from '../driver/cluster.ts'

/** Sends a request to the API server as the service account, with a real token; resolves with the status. */
export type AskAs = (method: string, path: string, body?: object, contentType?: string) => Promise<number>

interface KubeConfig {
  clusters: { cluster: { server: string; 'certificate-authority-data': string } }[]
}

export async function clientOf(cluster: TestCluster, namespace: string, account: string): Promise<AskAs> {
  const token = (await cluster.kubectl('create', 'token', account, '-n', namespace)).trim()
  const config = await cluster.kubectl('config', 'view', '--raw', '--flatten', '-o', 'json')
  const { cluster: server } = (JSON.parse(config) as KubeConfig).clusters[0] ?? {}
  if (!server) throw new Error('the kubeconfig names no cluster')
  const ca = Buffer.from(server['certificate-authority-data'], 'base64')
  const askOnce: AskAs = (method, path, body, contentType = 'application/json') =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': contentType }
      const sent = request(new URL(path, server.server), { method, headers, ca }, (res) => {
        res.resume().once('end', () => resolve(res.statusCode ?? 0))
      })
      sent.once('error', reject).end(body && JSON.stringify(body))
    })
  return async (...given) => {
    for (let tries = 1; ; tries++) {
      const status = await askOnce(...given)
      // The API server says so while it makes the storage of a kind whose definition has just come.
      if (status !== 429 || tries === 480) return status
      await sleep(250)
    }
  }
}
